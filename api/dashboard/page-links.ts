import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../shared/base/time.ts'

/** A file of Vite's manifest, by its source or its chunk. */
type Built = { file: string; imports?: string[]; css?: string[] }

/** Paths below /dashboard without a session, and the source of their page. */
const visitorPages: Record<string, string> = {
  'sign-in': 'pages/sign-in/sign-in.tsx',
  'sign-up': 'pages/sign-in/sign-up.tsx',
  'forgot-password': 'pages/sign-in/forgot-password.tsx',
  'reset-password': 'pages/sign-in/reset-password.tsx',
  'verify-email': 'pages/sign-in/verify-email.tsx',
  invitations: 'pages/sign-in/invitation.tsx',
  outbox: 'pages/outbox/index.tsx',
}
const sharedPages: Record<string, string> = {
  account: 'pages/account/index.tsx',
  operator: 'pages/operator/index.tsx',
  welcome: 'pages/sign-in/welcome.tsx',
}
/** The tabs of the playground whose source has another name. */
const tabSources: Record<string, string> = { sfx: 'sound-effects', lipsync: 'lip-sync', face_swap: 'face-swap' }
/** The layout of all pages behind the sign-in. */
const shell = 'shell/organisation-shell.tsx'
/** In `requests` and others: the newest keys, for the filter by key. */
const keyChoices = 'keys?limit=100&include_revoked=true'
/**
 * What a page reads first if its address has no filters, below the routes of the organisation. `{id}` is the part of the address after
 * the page, `{from}` and `{to}` are the days of the UTC month. What only some roles may read is not among them.
 */
const firstReads: Record<string, readonly string[]> = {
  overview: ['overview', 'activity?span=7d', 'attention?span=7d', 'usage?span=7d&by=model&measure=cost'],
  playground: ['models', 'keys?limit=100'],
  'playground/{id}': ['models', 'keys?limit=100'],
  models: ['models'],
  'models/{id}': ['models'],
  presets: ['presets'],
  keys: ['keys?limit=50&include_revoked=false', 'members'],
  'keys/{id}': ['keys/{id}'],
  requests: [
    'requests?span=30d&limit=50',
    'activity?span=30d&environment=all',
    'request-filters?span=30d',
    'request-views',
    keyChoices,
  ],
  'requests/{id}': ['requests/{id}', 'requests/{id}/neighbours'],
  usage: ['usage?span=month&by=model&measure=cost', 'usage/groups?span=month&by=key', 'members'],
  jobs: ['jobs?limit=25', keyChoices],
  'jobs/{id}': ['jobs/{id}'],
  batches: ['batches?limit=25', keyChoices],
  'batches/{id}': ['batches/{id}'],
  webhooks: ['webhooks/deliveries?limit=50'],
  alerts: ['alerts', 'alerts/rules', 'alerts/history?limit=50'],
  billing: ['billing', 'billing/totals?from={from}&to={to}', 'billing/ledger?from={from}&to={to}&detail=days&limit=50'],
  members: ['members', 'budgets'],
  audit: ['audit?limit=50'],
  'log-exports': ['log-exports'],
  'log-exports/{id}': ['log-exports/{id}'],
  settings: ['members'],
}
/** What operators, who look at an organisation from outside, do not read of it. */
const ownReads: ReadonlySet<string> = new Set(['request-views', 'members', 'billing'])
/** As `firstReads`, of the pages of the operator area. */
const operatorReads: Record<string, readonly string[]> = {
  '': ['system', 'incidents?limit=10', 'activity?span=24h', 'top-organisations?span=24h&by=cost', 'unknown-names'],
  providers: ['providers'],
  'providers/{id}': [
    'providers/{id}',
    'activity?span=24h&provider={id}',
    'incidents?provider={id}&limit=10',
    'affected?span=24h&provider={id}',
    'usage?span=24h&provider={id}&by=model&measure=requests',
    'usage?span=24h&provider={id}&by=model&measure=errors',
  ],
  'incidents/{id}': ['incidents/{id}'],
  models: ['models'],
  servers: ['servers'],
  queues: ['queues'],
  organisations: ['organisations?limit=25'],
  people: ['people?limit=25'],
  notifications: ['notifications'],
  'log-exports': ['log-exports'],
  'log-exports/{id}': ['log-exports/{id}'],
  audit: ['audit?limit=50'],
}
const accountReads = ['passkey/list-user-passkeys', 'get-session', 'list-sessions']

/**
 * Returns the `Link` header for the address of a page: the browser then loads the page's scripts and its data beside the
 * application, instead of one after the other (docs/decisions/dashboard.md).
 */
export function openPageLinks(folder: string, clock: Clock): (path: string, search: string) => string {
  const manifest: Record<string, Built> = JSON.parse(readFileSync(join(folder, '.vite/manifest.json'), 'utf8'))
  const application = new Set(filesOf(manifest, 'index.html'))
  const links = new Map(
    Object.keys(manifest).map(source => [
      source,
      filesOf(manifest, source)
        .filter(file => !application.has(file))
        .map(file => `</dashboard/${file}>; ${file.endsWith('.css') ? 'rel=preload; as=style' : 'rel=modulepreload'}`),
    ]),
  )
  return (path, search) => {
    const parts = path.split('/').filter(Boolean)
    const [first = ''] = parts
    const visited = Object.hasOwn(visitorPages, first) ? visitorPages[first] : undefined
    if (visited) return (links.get(visited) ?? []).join(', ')
    const reads = ['/dashboard/api/me', ...(search === '' ? readsOf(parts, clock.now()) : [])]
    const files = new Set([shell, ...sourcesOf(parts)].flatMap(source => links.get(source) ?? []))
    return [...reads.map(read => `<${read}>; rel=preload; as=fetch; crossorigin`), ...files].join(', ')
  }
}

/** The sources of a page by the parts of its path; some may not exist. */
function sourcesOf([first = '', page = 'overview', third = '', viewed]: string[]): string[] {
  const shared = Object.hasOwn(sharedPages, first) ? [sharedPages[first]!] : []
  if (first === 'operator') {
    const ofItem = page === 'incidents' ? ['pages/operator/incident.tsx'] : []
    return [...shared, `pages/operator/${page}.tsx`, ...ofItem, `pages/${viewed}/index.tsx`]
  }
  if (page !== 'playground') return shared.length > 0 ? shared : [`pages/${page}/index.tsx`]
  const tab = Object.hasOwn(tabSources, third) ? tabSources[third] : third || 'chat'
  return ['pages/playground/index.tsx', `pages/playground/${tab}.tsx`, `pages/playground/${tab}/index.tsx`]
}

/** The routes that a page reads first, by the parts of its path. */
function readsOf(parts: string[], nowMs: number): string[] {
  const [first = '', ...own] = parts
  // Ids have no characters that a header or its syntax could not take.
  if (!parts.every(part => /^[\w-]+$/.test(part))) return []
  if (first === 'account') return own.length === 0 ? accountReads.map(read => `/dashboard/api/auth/${read}`) : []
  if (first !== 'operator') return below(`/dashboard/api/organisations/${first}`, firstReads, own, nowMs)
  const [page, organisation, ...viewed] = own
  const base = '/dashboard/api/operator'
  if (page !== 'organisations' || organisation === undefined) return below(base, operatorReads, own, nowMs)
  const place = `${base}/organisations/${organisation}`
  const seen = below(place, firstReads, viewed, nowMs).filter(read => !ownReads.has(read.slice(place.length + 1)))
  return [place, ...(viewed.length > 0 ? seen : [])]
}

function below(
  base: string,
  table: Record<string, readonly string[]>,
  [page = '', id, ...more]: string[],
  nowMs: number,
) {
  const name = id === undefined ? page : `${page}/{id}`
  if (more.length > 0 || !Object.hasOwn(table, name)) return []
  const now = new Date(nowMs)
  const dayOf = (months: number, day: number) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months, day)).toISOString().slice(0, 10)
  const values = { '{id}': id ?? '', '{from}': dayOf(0, 1), '{to}': dayOf(1, 0) }
  return table[name]!.map(
    read => `${base}/${read.replace(/\{\w+\}/g, placeholder => values[placeholder as keyof typeof values])}`,
  )
}

/** A chunk with everything that it imports, and their style sheets. */
function filesOf(manifest: Record<string, Built>, source: string, seen = new Set<string>()): string[] {
  const built = manifest[source]
  if (!built || seen.has(source)) return []
  seen.add(source)
  const { file, css = [], imports = [] } = built
  return [...new Set([file, ...css, ...imports.flatMap(name => filesOf(manifest, name, seen))])]
}
