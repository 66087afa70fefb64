import { readFileSync } from 'node:fs'
import { join } from 'node:path'

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
/** The layout of all pages behind the sign-in. */
const shell = 'shell/organisation-shell.tsx'
/** What a page of an organisation reads first, below the organisation's routes, if its address has no filters. */
const firstReads: Record<string, readonly string[]> = {
  overview: ['overview', 'activity?span=7d', 'attention?span=7d', 'usage?span=7d&by=model&measure=cost'],
  requests: [
    'requests?span=30d&limit=50',
    'activity?span=30d&environment=all',
    'request-filters?span=30d',
    'request-views',
  ],
  models: ['models'],
  presets: ['presets'],
  jobs: ['jobs?limit=25'],
  webhooks: ['webhooks/deliveries?limit=50'],
  alerts: ['alerts', 'alerts/rules', 'alerts/history?limit=50'],
  members: ['members'],
  audit: ['audit?limit=50'],
  'log-exports': ['log-exports'],
}

/**
 * Returns the `Link` header for the address of a page: the browser then loads the page's scripts and its data beside the
 * application, instead of one after the other (docs/decisions/dashboard.md).
 */
export function openPageLinks(folder: string): (path: string, search: string) => string {
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
    const [first = '', page = ''] = path.split('/').filter(Boolean)
    const visited = Object.hasOwn(visitorPages, first) ? visitorPages[first] : undefined
    if (visited) return (links.get(visited) ?? []).join(', ')
    const source = Object.hasOwn(sharedPages, first) ? sharedPages[first]! : `pages/${page || 'overview'}/index.tsx`
    const reads = ['/dashboard/api/me', ...(search === '' ? readsOf(path) : [])]
    const files = new Set([...(links.get(shell) ?? []), ...(links.get(source) ?? [])])
    return [...reads.map(read => `<${read}>; rel=preload; as=fetch; crossorigin`), ...files].join(', ')
  }
}

/** The routes that a page of an organisation reads first. */
function readsOf(path: string): string[] {
  const [organisation, page, ...more] = path.split('/').filter(Boolean)
  // Ids have no characters that a header or its syntax could not take.
  if (!/^[\w-]+$/.test(organisation ?? '') || page === undefined || more.length > 0) return []
  const reads = Object.hasOwn(firstReads, page) ? firstReads[page]! : []
  return reads.map(read => `/dashboard/api/organisations/${organisation}/${read}`)
}

/** A chunk with everything that it imports, and their style sheets. */
function filesOf(manifest: Record<string, Built>, source: string, seen = new Set<string>()): string[] {
  const built = manifest[source]
  if (!built || seen.has(source)) return []
  seen.add(source)
  const { file, css = [], imports = [] } = built
  return [...new Set([file, ...css, ...imports.flatMap(name => filesOf(manifest, name, seen))])]
}
