import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { dieWithParent, endOf } from '../../../dev/daemon.ts'

const platform = `${process.platform}-${process.arch}`
const program = join(import.meta.dirname, `../agents/node_modules/@anthropic-ai/claude-code-${platform}/claude`)
const maxRunMs = 45_000

/** The fields that the tests read of what `--output-format json` prints. */
export type ClaudeResult = { result: string; is_error: boolean; num_turns: number; total_cost_usd: number }
export type ClaudeRun = {
  exitCode: number | null
  /** Null if it printed no JSON. */
  result: ClaudeResult | null
  /** Everything printed, for failures. */
  output: string
}

/** Runs Claude Code without a terminal in an empty folder, against a server at `url` (without `/v1`). */
export async function runClaudeCode(
  url: string,
  { key, model, prompt, env = {} }: { key: string; model: string; prompt: string; env?: Record<string, string> },
): Promise<ClaudeRun> {
  const home = await mkdtemp(join(tmpdir(), 'headgate-claude-'))
  try {
    const options = ['--model', model, '--allowedTools', 'Bash(echo:*)', '--output-format', 'json']
    const child = spawn(program, ['-p', prompt, ...options], {
      cwd: home,
      env: {
        PATH: process.env.PATH,
        HOME: home,
        TERM: 'dumb',
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_AUTH_TOKEN: key,
        DISABLE_TELEMETRY: '1',
        DISABLE_AUTOUPDATER: '1',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: maxRunMs,
      killSignal: 'SIGKILL',
    })
    dieWithParent(child, 'SIGKILL')
    const [stdout, stderr] = await Promise.all([textOf(child.stdout!), textOf(child.stderr!), endOf(child)])
    return { exitCode: child.exitCode, result: parse(stdout), output: `${stdout}\n${stderr}` }
  } finally {
    await rm(home, { recursive: true, force: true })
  }
}

function parse(stdout: string): ClaudeResult | null {
  try {
    return JSON.parse(stdout)
  } catch {
    return null
  }
}
