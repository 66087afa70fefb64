import { dashboardEndpoints } from '../../api/dashboard/routes/index.ts'
import type { Endpoint } from '../../api/endpoint.ts'

/** Ids of things that a month has, by the part of the path before them. */
export type Ids = {
  organisation: string
  request: string
  requestId: string
  upstreamId: string
  keyHash: string
  month: string
}

/** The queries of a route besides the plain call, named by what they look for. */
function queriesOf(path: string, ids: Ids): string[] {
  const dimensions = ['key', 'member', 'model', 'provider', 'type', 'outcome']
  const spans = ['1h', '24h', '7d', '30d', '90d'].map(span => `span=${span}`)
  const queries: Record<string, string[]> = {
    activity: spans,
    attention: ['span=30d'],
    usage: [
      ...spans,
      ...dimensions.map(by => `span=30d&by=${by}&measure=errors`),
      ...ofCallers('24h'),
      ...ofCallers('30d'),
    ],
    'usage/groups': [
      ...['span=30d&by=key&then_by=model', 'span=90d&by=member&then_by=provider', 'span=30d&by=model&then_by=outcome'],
      ...['span=7d&by=key&granularity=hour', 'span=90d&by=model&granularity=week', ...ofCallers('24h')],
    ],
    'usage/groups.csv': ['span=30d&by=key&then_by=model'],
    requests: [...commonSearches, ...rareSearches(ids), ...ordered].map(query => `limit=50&${query}`),
    'request-count': counted,
    '/dashboard/api/operator/activity': [...spans.slice(0, 4), 'span=30d&provider=anthropic'],
    '/dashboard/api/operator/usage': ['span=30d', 'span=30d&by=outcome&measure=cost'],
    '/dashboard/api/operator/top-organisations': ['span=30d', 'span=30d&by=errors'],
    'billing/ledger': [`month=${ids.month}`, ...ledgerQueries.map(query => `month=${ids.month}&${query}`)],
    'billing/totals': [`month=${ids.month}`],
    'billing/ledger.csv': [`from=${ids.month}&to=${ids.month}`],
  }
  return queries[path] ?? ['']
}

const commonSearches = [
  '',
  'span=1h',
  'span=90d',
  'status=ok',
  'status=error',
  'status=error&span=90d',
  'environment=test',
  'model=gpt-5-mini',
]
const rareSearches = ({ requestId, upstreamId }: Ids) => [
  ...['status=504', 'status=refused', 'status=upstream_timeout', 'status=418', 'provider=fireworks', 'provider=nobody'],
  ...['status=error&provider=fireworks', 'status=504&model=gpt-5', 'model=kimi-k2.6', 'type=video', 'key=key_month7'],
  ...[
    'end_user=user-17',
    'session=session-17',
    'end_user=nobody',
    'min_duration_ms=10000',
    'min_duration_ms=90000',
    'min_cost_usd=0.1',
    'min_cost_usd=0.01&model=gpt-5-mini',
    'min_input_tokens=3200',
    'min_output_tokens=100000',
    'status=ok&min_duration_ms=90000',
  ],
  ...['tag=feature:f3', 'tag=feature:none', 'tag=nothing', 'batch=batch_none'],
  ...[`q=${requestId}`, `q=${upstreamId}`, 'q=nothing'],
]
const ordered = ['sort=cost', 'sort=duration', 'sort=input_tokens&span=24h', 'sort=duration&model=kimi-k2.6']
const counted = [
  ...['', 'span=24h', 'model=gpt-5&span=7d', 'status=504', 'end_user=user-17', 'tag=feature:f3', 'tag=nothing'],
  ...['min_duration_ms=10000', 'min_duration_ms=90000', 'min_cost_usd=0.1'],
]
/** Usage by what callers send is summed from the request log. */
const ofCallers = (span: string) => [`span=${span}&by=tag&tag=feature`, `span=${span}&by=end_user`]
const ledgerQueries = [
  'detail=entries',
  'kind=charge',
  'kind=deposit',
  'kind=refund',
  'detail=entries&kind=excess',
  'order=asc',
]

/** A call of every GET route of the dashboard, with each of its queries. */
export function pageCalls(ids: Ids): string[] {
  const routes = dashboardEndpoints.filter(({ method }: Endpoint) => method === 'get')
  return routes.flatMap(({ path }) => {
    const short = path.replace('/dashboard/api/organisations/{organisation}/', '')
    if (short === 'requests/{id}')
      return [ids.request, ids.requestId, ids.upstreamId, 'unknown'].map(id => fill(path, { ...ids, id }))
    if (short === 'requests/{id}/neighbours')
      return ['', '?model=kimi-k2.6', '?min_cost_usd=0.1'].map(query => fill(path, { ...ids, id: ids.request }) + query)
    return queriesOf(short, ids).map(query => fill(path, ids) + (query && `?${query}`))
  })
}

/** Replaces the parameters of a path. */
function fill(path: string, ids: Ids & { id?: string }): string {
  const firstOf: Record<string, string> = { jobs: 'job_1', batches: 'batch_1', 'top-ups': 'top_1' }
  return path
    .replace('{organisation}', ids.organisation)
    .replace('{hash}', ids.keyHash)
    .replace('{delivery}', 'evt_1')
    .replace('{file}', 'output')
    .replace('{id}', ids.id ?? firstOf[path.split('/').at(path.endsWith('{id}') ? -2 : -3)!] ?? 'job_1')
}
