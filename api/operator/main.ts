import { ConfigError, loadConfig } from '../../shared/base/config.ts'
import { createLog } from '../../shared/io/log.ts'
import { openServices } from '../../shared/open-services.ts'
import { backgroundStatementMs } from '../../shared/platform.ts'
import { commands, environmentCommands } from './commands.ts'
import { helpFor } from './help.ts'
import { type Environment, parseCommand, type Result } from './parse.ts'

/** What a command ends with: its exit code, and the texts it writes, each a whole number of lines. */
export type Outcome = { exitCode: number; stdout: string; stderr: string }

/**
 * The operator's command line: `npm run -s operator -- <command> [--json]`. Exits once all output is
 * written.
 */
export async function main(argv: string[]): Promise<void> {
  // An unreachable store would keep the process alive, so it exits explicitly once all output is written.
  const { exitCode, stdout, stderr } = await runCommand(argv)
  const [stream, output] = stderr ? [process.stderr, stderr] : [process.stdout, stdout]
  stream.write(output, () => process.exit(exitCode))
}

/**
 * Runs one command under the configuration of `env`, by default the process’s own. Never throws: an error becomes exit
 * code 1 and its text.
 */
export async function runCommand(argv: string[], env?: Environment): Promise<Outcome> {
  return run(argv, env).then(
    ({ output, exitCode }) => ({ exitCode, stdout: `${output}\n`, stderr: '' }),
    error => ({ exitCode: 1, stdout: '', stderr: `${describe(error)}\n` }),
  )
}

/** Runs a command. Returns the output and the exit code. */
async function run(argv: string[], env?: Environment): Promise<{ output: string; exitCode: number }> {
  const help = helpFor(argv)
  if (help !== null) return { output: help, exitCode: 0 }
  const { command, flags, json } = parseCommand(argv, [...commands, ...environmentCommands])
  if ('runAlone' in command) return written(await command.runAlone(env), json)
  const config = { ...loadConfig(env), databasePool: 2 }
  const services = await openServices(config, createLog('silent'), { statementTimeoutMs: backgroundStatementMs })
  try {
    return written(await command.run(services, flags), json)
  } finally {
    await services.close()
  }
}

function written({ data, text, exitCode = 0 }: Result, json: boolean): { output: string; exitCode: number } {
  return { output: json ? JSON.stringify(data) : text, exitCode }
}

function describe(error: unknown): string {
  if (error instanceof ConfigError) return error.faults.map(fault => `configuration: ${fault}`).join('\n')
  return error instanceof Error ? error.message || error.name : String(error)
}
