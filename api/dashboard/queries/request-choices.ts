import type { Platform } from '../../../shared/platform.ts'
import { outcomes } from '../../../shared/wallet/usage-hours.ts'
import { sumUsage, type UsageSum } from '../../../shared/wallet/usage-query.ts'
import type { ChoiceCounts } from '../wire/requests.ts'
import { runSearch } from './run-search.ts'
import { readSpan } from './span.ts'
import { readUsageFilter, statusOutcomes, usageBound } from './usage-filter.ts'

const dimensions = ['model', 'provider', 'type'] as const
const maxRows = 10_000

type Choices = Partial<Record<(typeof dimensions)[number] | 'status', string | undefined>>
type ChoiceQuery = Choices & Pick<Parameters<typeof readUsageFilter>[2], 'span' | 'from' | 'to' | 'environment' | 'key'>

/**
 * Counts the requests that each choice of a filter finds, together with what the other filters name. A status that the sums of usage do
 * not know narrows nothing. Throws 400, 404.
 */
export async function countChoices(
  services: Platform,
  organisationId: string,
  { model, provider, type, status, span = undefined, ...query }: ChoiceQuery,
): Promise<ChoiceCounts> {
  const time = readSpan(
    { ...query, span: span ?? (query.from === undefined ? '30d' : undefined) },
    services.clock.now(),
  )
  const asked = { ...query, environment: query.environment ?? 'all' } as const
  const { filter } = await readUsageFilter(services, organisationId, asked, time)
  const exact = time.since && { from: time.since, isExact: true }
  const grouping = { step: null, by: dimensions, order: 'cost', durations: false, limit: maxRows } as const
  const { rows } = await runSearch(services.db, usageBound, organisationId, tx =>
    sumUsage(tx, { ...filter, ...exact }, { ...grouping, source: time.source }),
  )
  return countRows(rows, { model, provider, type, status })
}

function countRows(rows: readonly UsageSum[], chosen: Choices): ChoiceCounts {
  const counts: ChoiceCounts = { model: {}, provider: {}, type: {}, status: {} }
  const among = Object.hasOwn(statusOutcomes, chosen.status ?? '')
    ? statusOutcomes[chosen.status as keyof typeof statusOutcomes]
    : outcomes
  const add = (to: Record<string, number>, value: string, requests: number) => {
    if (value !== '' && requests > 0) to[value] = (to[value] ?? 0) + requests
  }
  for (const { groups, outcomes: counted } of rows) {
    const isChosen = dimensions.map((name, i) => chosen[name] === undefined || chosen[name] === groups[i])
    const others = (except: number) => isChosen.every((is, i) => is || i === except)
    const requests = among.reduce((sum, name) => sum + counted[name], 0)
    for (const [i, name] of dimensions.entries()) if (others(i)) add(counts[name], groups[i]!, requests)
    if (!others(-1)) continue
    for (const [status, names] of Object.entries(statusOutcomes))
      add(
        counts.status,
        status,
        names.reduce((sum, name) => sum + counted[name], 0),
      )
  }
  return counts
}
