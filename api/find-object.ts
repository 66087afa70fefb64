import { createdAtMs } from '../shared/base/ids.ts'
import { containing } from '../shared/io/keyset.ts'
import { delayedKind } from '../shared/jobs/jobs.ts'
import { hashSecret } from '../shared/keys/secret.ts'
import type { Services } from '../shared/open-services.ts'
import { searchBound } from './dashboard/queries/request-search.ts'
import { runSearch } from './dashboard/queries/run-search.ts'

/** An object such as a request, a key or an organisation: its kind, its owner, and its page of the operator area. */
type FoundObject = {
  kind: string
  label: string
  /** The organisation's name, or what else tells it apart. */
  note: string | null
  path: string
}

const maxPerKind = 6
/** A request is logged after it began: at its end. */
const maxRunMs = 26 * 3_600_000
const earlierMs = 60_000
const idPattern = /^[\w.:-]{6,200}$/

type Needs = Pick<Services, 'db' | 'catalog'>
type Owned = { organisationId: string }

/**
 * Finds the objects that have an id, in any organisation, and the people, organisations, models and providers whose name, address
 * or id contains a text: at most six of each kind. Exact ids come first.
 */
export async function findObjects(services: Needs, typed: string): Promise<FoundObject[]> {
  const text = typed.trim()
  if (text.length < 2) return []
  const [ids, named] = await Promise.all([
    idPattern.test(text) ? findById(services, text) : [],
    findByName(services, text),
  ])
  const seen = new Set<string>()
  return [...ids, ...named].filter(({ path }) => !seen.has(path) && seen.add(path))
}

async function findById({ db }: Needs, id: string): Promise<FoundObject[]> {
  const where = { id }
  const [request, job, batch, file, key, delivery, endpoint, incident] = await Promise.all([
    findRequest({ db }, id),
    db.job.findFirst({ where: { OR: [{ id }, { requestId: id }] } }),
    db.batch.findUnique({ where }),
    db.file.findUnique({ where }),
    db.apiKey.findFirst({ where: { OR: [{ id }, { hash: /^[0-9a-f]{64}$/.test(id) ? id : hashSecret(id) }] } }),
    db.webhookDelivery.findUnique({ where }),
    db.webhookEndpoint.findUnique({ where }),
    db.incidentGroup.findUnique({ where }),
  ])
  const found: (Owned & Omit<FoundObject, 'note' | 'path'> & { page: string })[] = []
  const add = (kind: string, row: Owned | null, label: string, page = '') => {
    if (row) found.push({ kind, organisationId: row.organisationId, label, page })
  }
  add('Request', request, id, `requests/${encodeURIComponent(request?.id ?? id)}`)
  // The request of a job is logged when it ends.
  if (job && request?.id !== job.id)
    add(job.kind === delayedKind ? 'Delayed job' : 'Job', job, `${job.id} (${job.status})`)
  add('Batch', batch, `${id} (${batch?.status})`, `requests?batch=${id}`)
  add('File', file, `${file?.filename} (${id})`)
  add('API key', key, `${key?.name} (…${key?.last4})`, `keys/${key?.hash}`)
  const about = delivery?.jobId ?? delivery?.batchId
  add('Webhook event', delivery, `${delivery?.type} (${delivery?.status})`, about ? `requests/${about}` : '')
  add('Webhook endpoint', endpoint, endpoint ? new URL(endpoint.url).host : id)
  const names = await db.organisation.findMany({
    where: { id: { in: found.map(({ organisationId }) => organisationId) } },
    select: { id: true, name: true },
  })
  const nameOf = new Map(names.map(row => [row.id, row.name]))
  const owned = found.map(({ kind, label, organisationId, page }): FoundObject => {
    const path = `/operator/organisations/${organisationId}${page && `/${page}`}`
    return { kind, label, note: nameOf.get(organisationId) ?? organisationId, path }
  })
  const incidents = incident
    ? [{ kind: 'Incident', label: incident.id, note: incident.provider, path: `/operator/incidents/${incident.id}` }]
    : []
  return [...owned, ...incidents]
}

/** The latest request with an id: its own, that of the HTTP request, or the provider's. */
async function findRequest({ db }: Pick<Needs, 'db'>, id: string): Promise<(Owned & { id: string }) | null> {
  const select = { id: true, organisationId: true } as const
  const orderBy = { createdAt: 'desc' } as const
  const own = await db.generation.findFirst({ where: { OR: [{ id }, { upstreamId: id }] }, orderBy, select })
  const atMs = createdAtMs(id)
  if (own || atMs === null || !id.startsWith('req_')) return own
  const [from, to] = [new Date(atMs - earlierMs), new Date(atMs + maxRunMs)]
  // The request log has no index of request ids: each organisation's part of the time is read.
  const [row] = await runSearch(
    db,
    { ...searchBound, param: 'id' },
    null,
    tx => tx.$queryRaw<(Owned & { id: string })[]>`
      SELECT g.id, g.organisation_id AS "organisationId" FROM organisations o CROSS JOIN LATERAL (
        SELECT id, organisation_id FROM generations
        WHERE organisation_id = o.id AND created_at BETWEEN ${from} AND ${to} AND request_id = ${id}
        ORDER BY created_at DESC LIMIT 1) g
      LIMIT 1`,
    { byIndex: true },
  )
  return row ?? null
}

async function findByName({ db, catalog }: Needs, text: string): Promise<FoundObject[]> {
  const contains = containing(text)
  const take = maxPerKind
  const [people, organisations] = await Promise.all([
    db.user.findMany({
      where: { OR: [{ id: text }, { email: contains }, { name: contains }] },
      orderBy: { email: 'asc' },
      take,
    }),
    db.organisation.findMany({ where: { OR: [{ id: text }, { name: contains }] }, orderBy: { name: 'asc' }, take }),
  ])
  const has = (...values: string[]) => values.some(value => value.toLowerCase().includes(text.toLowerCase()))
  const providers = [...catalog.providers.keys()].filter(name => has(name)).slice(0, take)
  const models = [...catalog.models.values()].filter(({ id, name }) => has(id, name)).slice(0, take)
  const search = (value: string) => `?search=${encodeURIComponent(value)}`
  return [
    ...organisations.map(({ id, name }) => {
      return { kind: 'Organisation', label: name, note: id, path: `/operator/organisations/${id}` }
    }),
    ...people.map(({ email, name }) => {
      return { kind: 'User', label: email, note: name, path: `/operator/people${search(email)}` }
    }),
    ...providers.map(name => ({ kind: 'Provider', label: name, note: null, path: `/operator/providers/${name}` })),
    ...models.map(({ id, name }) => ({ kind: 'Model', label: name, note: id, path: `/operator/models${search(id)}` })),
  ]
}
