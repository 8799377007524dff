/-
launcher/lean/Golden.lean - print the requests of the cases below, a line each; they must be the
bytes of tests/data/launcher/lean/requests.jsonl. With a launcher as argument, run SAXPY too.

  lake build && lake env lean --run Golden.lean
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

def goldenCases : List (Array Float × List (Name × Array Float)) := [
  (#[4, 2.5], [(`X, #[1, 2, 3, 4]), (`Y, #[1, 1, 1, 1]), (`R, #[0, 0, 0, 0])]),
  (#[], []),
  (#[-0.0, 0.1, 1e-8, 1e300, -1e-310, 0.0 / 0.0, 1.0 / 0.0, -1.0 / 0.0], [(`z, #[])]),
  (#[1], [(`one, #[1e-8]), (`two, #[0.1, -0.1]), (`three, #[1, 16777217, 1e39])]),
  (#[], [(`a.b, #[0.0 / 0.0]), (`«quoted "name"», #[5])])]

def main (args : List String) : IO UInt32 := do
  for (scalars, arrays) in goldenCases do
    IO.println (requestText scalars arrays)
  match args with
  | launcher :: _ =>
    let arrays := [(`X, #[1, 2, 3]), (`Y, #[1, 1, 1]), (`R, #[0, 0, 0])]
    let results ← executeKernel saxpy ⟨1, 1, 1⟩ ⟨256, 1, 1⟩ #[3, 2.5] arrays launcher
    IO.println s!"{results}"
  | [] => pure ()
  return 0
