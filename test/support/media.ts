import { textureFile } from '../../shared/providers/sandbox/glb.ts'
import { wav } from '../../shared/providers/sandbox/media.ts'
import { videoFile } from '../../shared/providers/sandbox/mp4.ts'
import { type Account, eventually, type Gateway } from './gateway.ts'

// biome-ignore lint/suspicious/noExplicitAny: the tests look into jobs of every kind
export type Shown = any

const dataUri = (type: string, bytes: Uint8Array) => `data:${type};base64,${Buffer.from(bytes).toString('base64')}`

export const image = dataUri('image/png', textureFile())
export const audio = (seconds: number) => dataUri('audio/wav', wav(seconds * 1_000))
export const clip = async (seconds: number) =>
  dataUri('video/mp4', await videoFile({ seconds, width: 320, height: 240 }))

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
export async function over(gateway: Gateway, key: string, path: string, id: string): Promise<Shown> {
  await eventually(async () => {
    await gateway.services.watch.wake(id, 0)
    return (await rowOf(gateway, id)).stage === 'over'
  }, `${id} is over`)
  return answerOf(await gateway.fetch(`${path}/${id}`, { key }))
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
