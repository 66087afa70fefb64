import { useQuery } from '@tanstack/react-query'
import type { KeysAnswer } from '../../wire/keys.ts'
import type { FindAnswer } from '../../wire/operator-home.ts'
import type { Me } from '../../wire/person.ts'
import { call, queryText } from '../api.ts'
import { useModels } from '../catalog.ts'
import { withoutSecret } from '../pages/keys/queries.ts'
import type { Place } from '../session.tsx'
import { navEntries, operatorPages } from './nav.ts'

/** `kind`: "Go to", "ID", "API key". */
export type PaletteItem = { kind: string; label: string; note?: string; href: string }

const maxPerKind = 6
/** Ids of requests, jobs, batches and providers' responses: a long part with a digit, so that "customer-7" is none. */
const idPattern = /^(?=.*\d)(?=.*[A-Za-z0-9]{10})[\w.:-]{12,200}$/

/** What matches a text in the operator area, of all organisations. */
export function useOperatorItems(typed: string): PaletteItem[] {
  const text = withoutSecret(typed.trim())
  const found = useQuery({
    queryKey: ['operator', 'find', text],
    queryFn: async ({ signal }) =>
      (await call<FindAnswer>(`/dashboard/api/operator/find${queryText({ text })}`, { signal })).data,
    enabled: text.length >= 2,
  })
  const pages = operatorPages.filter(({ label }) => label.toLowerCase().includes(text.toLowerCase()))
  return [
    ...pages.map(({ path, label }): PaletteItem => ({ kind: 'Go to', label, href: path })),
    ...(found.data ?? []).map(({ kind, label, note, path }): PaletteItem => {
      return { kind, label, href: path, ...(note !== null && { note }) }
    }),
  ]
}

/** What matches a text: pages, API keys, models, and the address of an id. */
export function usePaletteItems(me: Me, place: Place, typed: string): PaletteItem[] {
  const text = withoutSecret(typed.trim())
  const models = useModels(place.has('models')).data ?? []
  const keys = useQuery({
    queryKey: [place.id, 'keys', 'palette', text],
    queryFn: async ({ signal }) =>
      (await call<KeysAnswer>(`${place.base}/keys${queryText({ search: text, limit: maxPerKind })}`, { signal })).data,
    enabled: text !== '' && place.has('keys'),
  })
  const has = (...values: string[]) => values.some(value => value.toLowerCase().includes(text.toLowerCase()))
  const pages = pagesOf(me, place).filter(({ label }) => has(label))
  if (text === '') return pages
  const isId = idPattern.test(text) && !text.startsWith('svc_') && !text.startsWith('file-') && place.has('requests')
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
    .filter(({ path }) => place.has(path))
    .map(({ path, label }): PaletteItem => ({ kind: 'Go to', label, href: `${place.home}/${path}` }))
  const account: PaletteItem = { kind: 'Go to', label: 'Account', href: '/account' }
  const operator: PaletteItem = { kind: 'Go to', label: 'Operator area', href: '/operator' }
  return [...own, account, ...(me.operator ? [operator] : [])]
}

/** Jobs, batches, events and endpoints have pages of their own; the page of a request finds all other ids. */
function addressOf(home: string, id: string): string {
  if (id.startsWith('evt_')) return `${home}/webhooks?delivery=${id}`
  if (id.startsWith('whe_')) return `${home}/webhooks/endpoints/${id}`
  if (id.startsWith('ajob_') || id.startsWith('mesh_')) return `${home}/jobs/${id}`
  if (id.startsWith('job_')) return `${home}/jobs/${id}`
  if (id.startsWith('batch_')) return `${home}/batches/${id}`
  return `${home}/requests/${encodeURIComponent(id)}`
}
