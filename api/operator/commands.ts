import { adjustments } from './adjustments.ts'
import { apply } from './apply/apply.ts'
import { autoTopUps } from './auto-top-ups.ts'
import { budgets } from './budgets.ts'
import { cacheCommands } from './cache-commands.ts'
import { catalogCommands } from './catalog-commands.ts'
import { catalogDiff } from './catalog-diff.ts'
import { credits } from './credit.ts'
import { doctor } from './doctor.ts'
import { find } from './find.ts'
import { imports } from './import/litellm.ts'
import { keys } from './keys.ts'
import { ledger } from './ledger.ts'
import { logExports } from './log-exports.ts'
import { models } from './models.ts'
import { organisations } from './organisations.ts'
import { ownKeys } from './own-keys.ts'
import type { Command, EnvironmentCommand } from './parse.ts'
import { providerKeys } from './provider-keys.ts'
import { prune } from './prune.ts'
import { secrets } from './secrets.ts'
import { suspensions } from './suspensions.ts'
import { users } from './users.ts'
import { webhooks } from './webhooks.ts'

/** Every command of the operator's command line, in the order of its help. */
export const commands: readonly Command[] = [
  ...organisations,
  ...credits,
  ...adjustments,
  ...autoTopUps,
  ...keys,
  ...budgets,
  ...users,
  ...suspensions,
  ...find,
  ...ledger,
  ...models,
  ...prune,
  ...cacheCommands,
  ...catalogCommands,
  ...catalogDiff,
  ...providerKeys,
  ...apply,
  ...imports,
  ...webhooks,
  ...ownKeys,
  ...logExports,
  ...secrets,
]

/** Commands that need no stores. */
export const environmentCommands: readonly EnvironmentCommand[] = [doctor]
