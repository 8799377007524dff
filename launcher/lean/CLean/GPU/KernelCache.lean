/-
launcher/lean/CLean/GPU/KernelCache.lean - compiled kernels, kept on disk by gpu_launcher.

The cache is the launcher's own: a folder kernel_HASH with the CUDA source and the PTX. The hash
covers the source, its includes, the options, the architecture and the compiler.
-/
import Lean.Data.Json

namespace CLean.GPU.KernelCache
open Lean

/-- A kernel has a name in its CUDA source, and that source. -/
class CudaKernel (κ : Type) where
  kernelName : κ → String
  cudaSource : κ → String

/-- A kernel as plain text, for programs that have nothing more. -/
structure Kernel where
  name : String
  source : String

instance : CudaKernel Kernel := ⟨Kernel.name, Kernel.source⟩

/-- An entry of the cache. -/
structure CachedKernel where
  hash : String
  cudaSourcePath : System.FilePath
  ptxPath : System.FilePath
  executablePath : Option System.FilePath := none

/-- How the launcher ended, and all that it wrote. -/
structure LauncherOutput where
  exitCode : UInt32
  stdout : String
  stderr : String

/-- Write all of it. The handle is gone afterwards, and so the other side sees the end. A launcher
that ended before it had read everything has said why on its stdout. -/
private def writeAndClose (handle : IO.FS.Handle) (input : String) : IO Unit := do
  try
    handle.putStr input
    handle.flush
  catch _ => pure ()

/-- Run the launcher with `input` on its stdin. Both outputs are read while it is written, so that no
pipe fills up. -/
def runLauncher (launcherPath : String) (args : Array String) (input : String) :
    IO LauncherOutput := do
  let child ← IO.Process.spawn {
    cmd := launcherPath, args := args, stdin := .piped, stdout := .piped, stderr := .piped }
  let (stdin, child) ← child.takeStdin
  let stdout ← IO.asTask child.stdout.readToEnd Task.Priority.dedicated
  let stderr ← IO.asTask child.stderr.readToEnd Task.Priority.dedicated
  writeAndClose stdin input
  let exitCode ← child.wait
  return { exitCode, stdout := ← IO.ofExcept stdout.get, stderr := ← IO.ofExcept stderr.get }

/-- The JSON object that the launcher has written, or its error as an exception. -/
def parseOutput (output : LauncherOutput) : IO Json := do
  match Json.parse output.stdout with
  | .error why =>
    throw <| IO.userError
      s!"gpu_launcher ended with {output.exitCode}, and its output is not JSON ({why}): {output.stderr}"
  | .ok json =>
    match json.getObjVal? "error" with
    | .error _ => return json
    | .ok error =>
      let field (name : String) : String := (error.getObjValAs? String name).toOption.getD ""
      let (stage, code, message, log) := (field "stage", field "code", field "message", field "log")
      throw <| IO.userError s!"{stage}: {code}: {message}\n{log}"

/-- Compile CUDA C++ to PTX, unless the cache has it. -/
def compileToPTX (name source : String) (launcherPath : String := "./gpu_launcher") :
    IO CachedKernel := do
  let json ← parseOutput (← runLauncher launcherPath #["--compile", "-", name] source)
  let field (key : String) : IO String := IO.ofExcept (json.getObjValAs? String key)
  return { hash := ← field "hash", cudaSourcePath := ← field "source", ptxPath := ← field "ptx" }

/-- The entry of a kernel, which is compiled when it is not there. -/
def getCachedKernel {κ : Type} [CudaKernel κ] (kernel : κ)
    (launcherPath : String := "./gpu_launcher") : IO CachedKernel :=
  compileToPTX (CudaKernel.kernelName kernel) (CudaKernel.cudaSource kernel) launcherPath

end CLean.GPU.KernelCache
