import { textureFile } from '../../../shared/providers/sandbox/media/mesh-files.ts'
import { videoFile } from '../../../shared/providers/sandbox/media/video-file.ts'
import { type Account, eventually, type Gateway } from '../gateway.ts'
import { wav } from '../media/sounds.ts'

// biome-ignore lint/suspicious/noExplicitAny: the tests look into jobs of every kind
export type Shown = any

export const dataUri = (type: string, bytes: Uint8Array) =>
  `data:${type};base64,${Buffer.from(bytes).toString('base64')}`

export const image = dataUri('image/png', textureFile())
export const audio = (seconds: number) => dataUri('audio/wav', wav(seconds * 1_000))
export const clip = async (seconds: number) => dataUri('video/mp4', await videoFile({ seconds }))

/** Uploads a file; gives its address. */
export async function upload(gateway: Gateway, key: string, bytes: Buffer, contentType: string): Promise<string> {
  const form = new FormData()
  form.set('file', new Blob([new Uint8Array(bytes)], { type: contentType }), 'file')
  const headers = { authorization: `Bearer ${key}` }
  const response = await fetch(`${gateway.url}/v1/uploads`, { method: 'POST', headers, body: form })
  return (await answerOf(response)).url
}

/** A response's JSON, whatever its shape. */
export async function answerOf(response: Response): Promise<Shown> {
  return response.json()
}

/** Submits a job; throws when it is not taken. */
export async function submit(gateway: Gateway, path: string, key: string, body: object): Promise<Shown> {
  const response = await gateway.fetch(path, { key, body })
  const answer = await answerOf(response)
  if (response.status !== 202) throw new Error(`${response.status} ${JSON.stringify(answer)}`)
  return answer
}

/** The row of a job. */
export async function rowOf(gateway: Gateway, id: string) {
  const row = await gateway.services.jobs.read(id)
  if (!row) throw new Error(`there is no job ${id}`)
  return row
}

/** Waits until the provider works on a job. */
export function running(gateway: Gateway, id: string): Promise<void> {
  return eventually(async () => (await rowOf(gateway, id)).stage === 'running', `${id} runs`)
}

/** Waits for the end of a job without waiting for the next look: it is looked at all the time. */
export function over(gateway: Gateway, key: string, path: string, id: string): Promise<Shown> {
  return ended(gateway, key, path, id, () => {})
}

/** The same, with the provider's part: `act` ends the part of the work that is under way. */
export async function ended(gateway: Gateway, key: string, path: string, id: string, act: () => void): Promise<Shown> {
  await eventually(async () => {
    act()
    await gateway.services.pollSchedule.wake(id, 0)
    return (await rowOf(gateway, id)).stage === 'over'
  }, `${id} is over`)
  await eventually(() => isToldToRedis(gateway, id), `the money of ${id} is right in Redis, too`)
  return answerOf(await gateway.fetch(`${path}/${id}`, { key }))
}

/** Redis hears of a job's end right after Postgres, not with it. */
async function isToldToRedis({ services: { db, redis } }: Gateway, id: string): Promise<boolean> {
  const { organisationId } = (await db.job.findUnique({ where: { id } }))!
  const { version } = await db.wallet.findUniqueOrThrow({ where: { organisationId } })
  const known = await redis.hget(`wallet:${organisationId}`, 'version')
  const held = await redis.zrange('reservations:jobs', '0', '-1')
  return BigInt(known ?? version) >= version && !held.some(member => member.startsWith(`${id}|`))
}

export async function wallet(gateway: Gateway, { live }: Account): Promise<Shown> {
  return answerOf(await gateway.fetch('/v1/balance', { key: live }))
}

/** The ledger entries of a job in USD, oldest first. */
export async function booked(gateway: Gateway, id: string): Promise<number[]> {
  const causes = [`generation:${id}`, `refund:${id}`]
  const rows = await gateway.services.db.ledgerEntry.findMany({
    where: { cause: { in: causes } },
    orderBy: { id: 'asc' },
  })
  return rows.map(({ amountNano }) => Number(amountNano) / 1e9)
}
