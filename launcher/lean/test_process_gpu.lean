/-
launcher/lean/test_process_gpu.lean - from Lean to the GPU and back: the cache, results compared
with the CPU's, errors, launches at the same time, large arrays.

  lake build test_process_gpu && .lake/build/bin/test_process_gpu ../../cpu/gpu_launcher [FLOATS]

Where the toolchain cannot link a program: lake env lean --run test_process_gpu.lean LAUNCHER
-/
import CLean.GPU.ProcessLauncher

open Lean CLean.GPU.KernelCache CLean.GPU.ProcessLauncher

def saxpyKernel : Kernel where
  name := "saxpyKernel"
  source := "extern \"C\" __global__ void saxpyKernel(int N, float alpha, const float *x, const float *y, float *r)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) r[i] = alpha * x[i] + y[i];
}
"

def badKernel : Kernel where
  name := "badKernel"
  source := "extern \"C\" __global__ void badKernel(int n) { this is no CUDA; }\n"

/-- The state of a SAXPY; the GPU and the CPU take the same. -/
structure Saxpy where
  alpha : Float
  x : Array Float
  y : Array Float
  r : Array Float

instance : KernelMemory Saxpy where
  scalars s := #[Float.ofNat s.x.size, s.alpha]
  arrays s := [(`X, s.x), (`Y, s.y), (`R, s.r)]
  update s results :=
    match results.find? (·.1 == `R) with
    | some (_, r) => { s with r := r }
    | none => s

/-- Numbers that 32 bits hold exactly, and so do the results: equal means equal. -/
def saxpy (n : Nat) (alpha : Float) : Saxpy where
  alpha := alpha
  x := (Array.range n).map fun i => Float.ofNat (i % 1024)
  y := Array.replicate n 1
  r := Array.replicate n 0

def runKernelCPU (s : Saxpy) : Saxpy :=
  { s with r := Array.zipWith (fun x y => s.alpha * x + y) s.x s.y }

def grid (s : Saxpy) : Dim3 := ⟨(s.x.size + 255) / 256, 1, 1⟩

def block : Dim3 := ⟨256, 1, 1⟩

def check (what : String) (right : Bool) : IO Unit := do
  unless right do throw <| IO.userError s!"{what}: wrong"
  IO.println s!"{what}: ok"

def milliseconds {α : Type} (work : IO α) : IO (α × Nat) := do
  let began ← IO.monoMsNow
  let result ← work
  return (result, (← IO.monoMsNow) - began)

def testCache (launcher : String) : IO Unit := do
  let (first, before) ← milliseconds (getCachedKernel saxpyKernel launcher)
  let (second, after) ← milliseconds (getCachedKernel saxpyKernel launcher)
  IO.println s!"compile: {before} ms, again: {after} ms"
  check "cache" (first.hash == second.hash && (← second.ptxPath.pathExists))

def testCorrectness (launcher : String) : IO Unit := do
  let state := saxpy 1000 2.5
  let gpu ← runKernelGPU_Process saxpyKernel (grid state) block state launcher
  check "correctness" (gpu.r == (runKernelCPU state).r)

def testErrors (launcher : String) : IO Unit := do
  let refused ← try
      let _ ← executeKernel badKernel ⟨1, 1, 1⟩ block #[1] [] launcher
      pure false
    catch e =>
      IO.println ("expected: " ++ ((toString e).splitOn "\n").head!)
      pure true
  check "errors" refused

/-- Four launches at the same time, and one that fails when it is awaited. -/
def testAsync (launcher : String) : IO Unit := do
  let states := [1, 2, 3, 4].map fun k => saxpy (256 * k) (Float.ofNat k)
  let failing ← executeKernelAsync badKernel ⟨1, 1, 1⟩ block #[1] [] launcher
  let launches ← states.mapM fun s =>
    runKernelGPU_ProcessAsync saxpyKernel (grid s) block s launcher
  let results ← launches.mapM awaitKernel
  check "async" (results.map (·.r) == states.map (fun s => (runKernelCPU s).r))
  let refused ← try
      let _ ← awaitKernel failing
      pure false
    catch _ => pure true
  check "async error" refused

def testLarge (launcher : String) (n : Nat) : IO Unit := do
  let state := saxpy n 2
  let (gpu, took) ← milliseconds <|
    runKernelGPU_Process saxpyKernel (grid state) block state launcher
  IO.println s!"{n} floats: {took} ms"
  check "large" (gpu.r == (runKernelCPU state).r)

def main (args : List String) : IO UInt32 := do
  let launcher := args.head?.getD "./gpu_launcher"
  testCache launcher
  testCorrectness launcher
  testErrors launcher
  testAsync launcher
  testLarge launcher (((args.drop 1).head?.bind String.toNat?).getD 100000)
  return 0
