import { ConfigError, loadConfig } from '../../shared/base/config.ts'
import { systemClock } from '../../shared/base/time.ts'
import { createLog } from '../../shared/io/log.ts'
import { backgroundStatementMs, openServices } from '../../shared/services.ts'
import { commands, usage } from './commands.ts'
import { parseCommand, UsageError } from './parse.ts'

/** The operator's command line (contract §11): `npm run -s operator -- <command> [--json]`. Exits when everything is written. */
export async function main(argv: string[]): Promise<void> {
  // A store that is away would keep the process waiting for it, so it ends by itself once everything is written.
  await run(argv).then(
    ({ output, exitCode }) => process.stdout.write(`${output}\n`, () => process.exit(exitCode)),
    error => process.stderr.write(`${describe(error)}\n`, () => process.exit(1)),
  )
}

/** Runs a command. Gives the output and the exit code. */
async function run(argv: string[]): Promise<{ output: string; exitCode: number }> {
  if (argv.length === 1 && (argv[0] === 'help' || argv[0] === '--help')) return { output: usage(), exitCode: 0 }
  const { command, flags, json } = parseCommand(argv, commands)
  const services = await openServices(
    { ...loadConfig(), databasePool: 2 },
    createLog('silent'),
    systemClock,
    backgroundStatementMs,
  )
  try {
    const { data, text, exitCode = 0 } = await command.run(services, flags)
    return { output: json ? JSON.stringify(data) : text, exitCode }
  } finally {
    await services.close()
  }
}

function describe(error: unknown): string {
  if (error instanceof UsageError) return `${error.message}\n\n${usage()}`
  if (error instanceof ConfigError) return error.faults.map(fault => `configuration: ${fault}`).join('\n')
  return error instanceof Error ? error.message || error.name : String(error)
}
