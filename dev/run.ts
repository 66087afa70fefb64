import { type ExecFileOptions, execFile } from 'node:child_process'
import { promisify } from 'node:util'

const stopping = new AbortController()

/** Runs a program to its end. Rejects with its output if it fails or is stopped by `stopRuns`. */
export function run(
  file: string,
  args: string[],
  options: ExecFileOptions = {},
): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(file, args, { ...options, encoding: 'utf8', signal: stopping.signal })
}

/** Stops all programs started by `run`, and every later one at once. */
export function stopRuns(): void {
  stopping.abort()
}
