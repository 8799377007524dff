/-
launcher/lean/test_process_gpu.lean - kernels on a GPU, from end to end: a kernel is compiled once and then cached,
its results are those of the CPU, errors are exceptions, launches run at the same time, large arrays travel.

  lake build test_process_gpu
  .lake/build/bin/test_process_gpu ../../cpu/gpu_launcher [FLOATS]

Ends with status 1 when a result is wrong.
-/
import CLean.GPU.ProcessLauncher

open Lean CLean.GPU.KernelCache CLean.GPU.ProcessLauncher

def saxpy : Kernel where
  name := "saxpyKernel"
  source := "extern \"C\" __global__ void saxpyKernel(int N, float alpha, const float *x, const float *y, float *r)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) r[i] = alpha * x[i] + y[i];
}
"

/-- The state of a program whose kernel is SAXPY. -/
structure Saxpy where
  alpha : Float
  x : Array Float
  y : Array Float
  r : Array Float

def result (arrays : List (Name × Array Float)) : Array Float :=
  ((arrays.find? (·.1 == `R)).map Prod.snd).getD #[]

instance : KernelMemory Saxpy where
  scalars s := #[Float.ofNat s.x.size, s.alpha]
  arrays s := [(`X, s.x), (`Y, s.y), (`R, s.r)]
  update s results := { s with r := result results }

def grid (n : Nat) : Dim3 := ⟨(n + 255) / 256, 1, 1⟩

def block : Dim3 := ⟨256, 1, 1⟩

/-- Small integers, so that 32-bit floats are exact. -/
def start (n : Nat) (alpha : Float) : Saxpy :=
  let x := (Array.range n).map fun i => Float.ofNat (i % 1000)
  { alpha, x, y := x.map (· + 1), r := Array.replicate n 0 }

def runSaxpyCPU (s : Saxpy) : Array Float :=
  Array.zipWith (fun x y => s.alpha * x + y) s.x s.y

def check (what : String) (good : Bool) : IO Unit := do
  unless good do throw <| IO.userError s!"{what}: wrong"
  IO.println s!"{what}: right"

def timed {α : Type} (what : String) (work : IO α) : IO α := do
  let before ← IO.monoMsNow
  let value ← work
  IO.println s!"{what}: {(← IO.monoMsNow) - before} ms"
  return value

def main (args : List String) : IO UInt32 := do
  let launcher := args.headD "./gpu_launcher"
  let large := ((args.drop 1).head?.bind String.toNat?).getD 1000000
  let small := start 1000 2.5
  -- a kernel is compiled once
  let first ← timed "compile" (getCachedKernel saxpy launcher)
  let again ← timed "cached" (getCachedKernel saxpy launcher)
  check "the cache" (first.ptxPath == again.ptxPath)
  -- the results are those of the CPU
  let done ← timed "one launch" (runKernelGPU_Process saxpy (grid 1000) block small launcher)
  check "SAXPY" (done.r == runSaxpyCPU small)
  -- four launches at the same time
  let tasks ← [1.0, 2.0, 3.0, 4.0].mapM fun alpha => do
    let state := start 1000 alpha
    return (state, ← runKernelGPU_ProcessAsync saxpy (grid 1000) block state launcher)
  for (state, task) in tasks do
    check s!"a task, {state.alpha}" ((← awaitKernel task).r == runSaxpyCPU state)
  -- an error is an exception, with the compiler's log
  let bad : Kernel := { name := "bad", source := "extern \"C\" __global__ void bad( {" }
  let refused ← try discard <| executeKernel bad (grid 1) block #[] [] launcher; pure false
    catch error => IO.println s!"expected: {error}"; pure true
  check "an error" refused
  -- a large array
  let big := start large 0.5
  let sum ← timed s!"{large} floats" (runKernelGPU_Process saxpy (grid large) block big launcher)
  check "a large array" (sum.r == runSaxpyCPU big)
  return 0
