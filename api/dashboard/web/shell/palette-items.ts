import { useQuery } from '@tanstack/react-query'
import type { KeysAnswer } from '../../wire/keys.ts'
import type { Me } from '../../wire/person.ts'
import { call, queryText } from '../api.ts'
import { useModels } from '../catalog.ts'
import { withoutSecret } from '../pages/keys/queries.ts'
import type { Place } from '../session.tsx'
import { navEntries } from './nav.ts'

export type PaletteItem = { kind: 'Go to' | 'ID' | 'API key' | 'Model'; label: string; note?: string; href: string }

const maxPerKind = 6
/** The ids of requests, jobs, batches and provider's responses: no spaces, and a separator or many characters. */
const idPattern = /^(?=.*[\d_-])[\w.:-]{8,200}$/

/** What matches a text: pages, API keys, models, and the address of an id. */
export function usePaletteItems(me: Me, place: Place, typed: string): PaletteItem[] {
  const text = withoutSecret(typed.trim())
  const models = useModels().data ?? []
  const keys = useQuery({
    queryKey: [place.id, 'keys', 'palette', text],
    queryFn: async ({ signal }) =>
      (await call<KeysAnswer>(`${place.base}/keys${queryText({ search: text, limit: maxPerKind })}`, { signal })).data,
    enabled: text !== '',
  })
  const has = (...values: string[]) => values.some(value => value.toLowerCase().includes(text.toLowerCase()))
  const pages = pagesOf(me, place).filter(({ label }) => has(label))
  if (text === '') return pages
  const isId = idPattern.test(text) && !text.startsWith('svc_')
  const { home } = place
  return [
    ...pages,
    ...(keys.data ?? []).map(({ name, last4, id }): PaletteItem => {
      return { kind: 'API key', label: name, note: `…${last4}`, href: `${home}/keys/${id}` }
    }),
    ...models
      .filter(({ id, name }) => has(id, name))
      .slice(0, maxPerKind)
      .map(({ id, name }): PaletteItem => ({ kind: 'Model', label: name, note: id, href: `${home}/models/${id}` })),
    ...(isId ? [{ kind: 'ID', label: `Open ${text}`, href: addressOf(home, text) } as const] : []),
  ]
}

function pagesOf(me: Me, place: Place): PaletteItem[] {
  const own = navEntries
    .filter(({ role }) => !role || place.may(role))
    .map(({ path, label }): PaletteItem => ({ kind: 'Go to', label, href: `${place.home}/${path}` }))
  const account: PaletteItem = { kind: 'Go to', label: 'Account', href: '/account' }
  const operator: PaletteItem = { kind: 'Go to', label: 'Operator area', href: '/operator' }
  return [...own, account, ...(me.operator ? [operator] : [])]
}

/** Jobs and batches have pages of their own; the page of a request finds all other ids. */
function addressOf(home: string, id: string): string {
  if (id.startsWith('job_')) return `${home}/jobs/${id}`
  if (id.startsWith('batch_')) return `${home}/batches/${id}`
  return `${home}/requests/${encodeURIComponent(id)}`
}
