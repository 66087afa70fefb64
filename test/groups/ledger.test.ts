import { runGroup } from '../support/groups/run-group.ts'

await runGroup('ledger')
