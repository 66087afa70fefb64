import { ConfigError, configOrExit } from '../shared/base/config.ts'
import { GatewayError } from '../shared/base/errors.ts'
import { createLog } from '../shared/io/log.ts'
import { openServices } from '../shared/services.ts'
import { commands, usage } from './operator/commands.ts'
import { parseCommand, UsageError } from './operator/parse.ts'

/** The operator's command line (contract §11): `npm run -s operator -- <command> [--json]`. */
async function main(argv: string[]): Promise<number> {
  const parsed = parseCommand(argv, commands)
  const log = createLog('silent')
  const services = await openServices({ ...configOrExit(), databasePool: 2 }, log)
  try {
    const result = await parsed.command.run(services, parsed.flags)
    if (parsed.json) console.log(JSON.stringify(result.data))
    else console.log(result.text)
    return result.exitCode ?? 0
  } finally {
    await services.close()
  }
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  process.exitCode = 1
  if (error instanceof UsageError) console.error(`${error.message}\n\n${usage()}`)
  else if (error instanceof ConfigError) for (const fault of error.faults) console.error(`configuration: ${fault}`)
  else if (error instanceof GatewayError) console.error(error.message)
  else console.error(error instanceof Error ? error.message || error.constructor.name : error)
}
