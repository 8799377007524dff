/-
launcher/lean/CLean/GPU/ProcessLauncher.lean - run kernels on a GPU from Lean, without FFI.

A kernel runs in another process, gpu_launcher, or in a daemon of it where one runs. Floats
travel exactly: arrays as the base64 of their bits, scalars as the decimal number that they are.
docs/launcher-protocol.md describes the messages.
-/
import CLean.GPU.KernelCache

namespace CLean.GPU.ProcessLauncher
open Lean CLean.GPU.KernelCache

/-- Blocks of a grid, or threads of a block. -/
structure Dim3 where
  x : Nat
  y : Nat := 1
  z : Nat := 1

/-! ### Numbers -/

/-- Take the factors 2 out of `mantissa`, as far as `exponent` is negative. -/
private partial def reduce (mantissa : Nat) (exponent : Int) : Nat × Int :=
  if exponent < 0 && mantissa % 2 == 0 && mantissa != 0 then reduce (mantissa / 2) (exponent + 1)
  else (mantissa, exponent)

/-- A float as a JSON value, exactly: `8`, `25e-1`; a value that is not finite as a string. -/
def floatToJson (value : Float) : String :=
  let bits := value.toBits.toNat
  let sign := if bits >= 2 ^ 63 then "-" else ""
  let field := bits / 2 ^ 52 % 2048
  let fraction := bits % 2 ^ 52
  if field == 2047 then
    if fraction == 0 then s!"\"{sign}Infinity\"" else "\"NaN\""
  else
    let whole := if field == 0 then fraction else fraction + 2 ^ 52
    let (mantissa, exponent) := reduce whole (Int.ofNat (max field 1) - 1075)
    if mantissa == 0 then s!"{sign}0"
    else if exponent >= 0 then s!"{sign}{mantissa * 2 ^ exponent.toNat}"
    else
      let places := (-exponent).toNat
      s!"{sign}{mantissa * 5 ^ places}e-{places}"

/-! ### Bytes -/

private def alphabet : Array Char :=
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".toList.toArray

/-- Base64 of RFC 4648, with padding. -/
def base64Encode (bytes : ByteArray) : String := Id.run do
  let mut text := ""
  let mut i := 0
  while i < bytes.size do
    let left := bytes.size - i
    let byte (k : Nat) : Nat := if k < left then (bytes.get! (i + k)).toNat else 0
    let group := byte 0 * 65536 + byte 1 * 256 + byte 2
    let digit (k : Nat) : Char :=
      if k > left then '=' else alphabet[group / 64 ^ (3 - k) % 64]!
    text := text.push (digit 0) |>.push (digit 1) |>.push (digit 2) |>.push (digit 3)
    i := i + 3
  return text

private def digitValue (c : UInt8) : Nat :=
  let n := c.toNat
  if n >= 65 && n <= 90 then n - 65
  else if n >= 97 && n <= 122 then n - 71
  else if n >= 48 && n <= 57 then n + 4
  else if n == 43 then 62
  else 63

/-- Bytes of base64 that the launcher has written. -/
def base64Decode (text : String) : ByteArray := Id.run do
  let chars := text.toUTF8
  let mut bytes := ByteArray.empty
  let mut i := 0
  while i + 3 < chars.size do
    let char (k : Nat) : UInt8 := chars.get! (i + k)
    let padding := (if char 2 == 61 then 1 else 0) + (if char 3 == 61 then 1 else 0)
    let digit (k : Nat) : Nat := if k + padding >= 4 then 0 else digitValue (char k)
    let group := digit 0 * 262144 + digit 1 * 4096 + digit 2 * 64 + digit 3
    bytes := bytes.push (UInt8.ofNat (group / 65536))
    if padding < 2 then bytes := bytes.push (UInt8.ofNat (group / 256))
    if padding < 1 then bytes := bytes.push (UInt8.ofNat group)
    i := i + 4
  return bytes

/-- The bits of floats as 32-bit floats, little-endian; of the many NaNs the usual one. -/
def floatsToBytes (values : Array Float) : ByteArray := Id.run do
  let mut bytes := ByteArray.empty
  for value in values do
    let bits : UInt32 := if value.isNaN then 0x7FC00000 else value.toFloat32.toBits
    bytes := bytes.push bits.toUInt8 |>.push (bits >>> 8).toUInt8 |>.push (bits >>> 16).toUInt8
      |>.push (bits >>> 24).toUInt8
  return bytes

/-- Floats from those bytes. -/
def bytesToFloats (bytes : ByteArray) : Array Float := Id.run do
  let mut values : Array Float := #[]
  for i in [0 : bytes.size / 4] do
    let byte (k : Nat) : UInt32 := (bytes.get! (4 * i + k)).toUInt32
    let bits := byte 0 ||| (byte 1 <<< 8) ||| (byte 2 <<< 16) ||| (byte 3 <<< 24)
    values := values.push (Float32.ofBits bits).toFloat
  return values

/-! ### Messages -/

/-- The request for a launch. The arrays keep their order, which is that of the kernel: the text is
written here, since Lean's JSON objects sort their keys. -/
def requestText (scalarParams : Array Float) (arrays : List (Name × Array Float)) : String :=
  let scalars := ",".intercalate (scalarParams.toList.map floatToJson)
  let array := fun ((name, values) : Name × Array Float) =>
    (Json.str name.toString).compress ++ ":{\"type\":\"f32\",\"b64\":\"" ++
      base64Encode (floatsToBytes values) ++ "\"}"
  "{\"scalars\":[" ++ scalars ++ "],\"arrays\":{" ++ ",".intercalate (arrays.map array) ++ "}}"

/-- The arrays of a reply, in the order of the request. -/
def readResults (json : Json) (names : List Name) : Except String (List (Name × Array Float)) := do
  let results ← json.getObjVal? "results"
  names.mapM fun name => do
    let array ← results.getObjVal? name.toString
    return (name, bytesToFloats (base64Decode (← array.getObjValAs? String "b64")))

/-! ### Launches -/

/-- Generate and compile a kernel, unless the cache has it. -/
def compileKernelToPTX {κ : Type} [CudaKernel κ] (kernel : κ)
    (launcherPath : String := "./gpu_launcher") : IO CachedKernel :=
  getCachedKernel kernel launcherPath

/-- Run a kernel: `scalarParams`, then `arrays`, are its parameters. Returns all arrays as the kernel has
left them. A launcher that is running already (`gpu_launcher --daemon auto`) is used. -/
def executeKernel {κ : Type} [CudaKernel κ] (kernel : κ) (grid block : Dim3)
    (scalarParams : Array Float) (arrays : List (Name × Array Float))
    (launcherPath : String := "./gpu_launcher") : IO (List (Name × Array Float)) := do
  let cached ← compileKernelToPTX kernel launcherPath
  let sizes := #[grid.x, grid.y, grid.z, block.x, block.y, block.z].map toString
  let args := #["--connect", "auto", cached.ptxPath.toString, CudaKernel.kernelName kernel] ++ sizes
  let json ← parseOutput (← runLauncher launcherPath args (requestText scalarParams arrays))
  IO.ofExcept (readResults json (arrays.map Prod.fst))

/-! ### Launches that run beside the program -/

/-- A launch that has begun: its results, or its error. -/
abbrev Launch (α : Type) := Task (Except IO.Error α)

/-- Begin `executeKernel` and return at once. Each launch has a thread and a launcher of its own, so
several run at the same time, in any order. -/
def executeKernelAsync {κ : Type} [CudaKernel κ] (kernel : κ) (grid block : Dim3)
    (scalarParams : Array Float) (arrays : List (Name × Array Float))
    (launcherPath : String := "./gpu_launcher") : IO (Launch (List (Name × Array Float))) :=
  IO.asTask (executeKernel kernel grid block scalarParams arrays launcherPath)
    Task.Priority.dedicated

/-- Wait for a launch and return its results; its error is thrown. -/
def awaitKernel {α : Type} (launch : Launch α) : IO α := do
  match ← IO.wait launch with
  | .ok results => return results
  | .error error => throw error

/-- The arguments and results of a kernel in the program's own type of state. -/
class KernelMemory (σ : Type) where
  scalars : σ → Array Float
  arrays : σ → List (Name × Array Float)
  update : σ → List (Name × Array Float) → σ

/-- Run a kernel on a state, in the place of runKernelCPU. -/
def runKernelGPU_Process {κ σ : Type} [CudaKernel κ] [KernelMemory σ] (kernel : κ)
    (grid block : Dim3) (initState : σ) (launcherPath : String := "./gpu_launcher") : IO σ := do
  let results ← executeKernel kernel grid block (KernelMemory.scalars initState)
    (KernelMemory.arrays initState) launcherPath
  return KernelMemory.update initState results

/-- Begin `runKernelGPU_Process` and return at once; `awaitKernel` gives the new state. -/
def runKernelGPU_ProcessAsync {κ σ : Type} [CudaKernel κ] [KernelMemory σ] (kernel : κ)
    (grid block : Dim3) (initState : σ) (launcherPath : String := "./gpu_launcher") :
    IO (Launch σ) :=
  IO.asTask (runKernelGPU_Process kernel grid block initState launcherPath)
    Task.Priority.dedicated

end CLean.GPU.ProcessLauncher
