import type { Client } from '../chat/client.ts'
import type { InstantKind, WorkKinds } from '../kinds/index.ts'
import type { Quantity } from '../kinds/instant.ts'
import type { ProviderError } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import type { Work } from './work.ts'

/** One attempt to give a client what it asked for. */
export type Delivery<K extends InstantKind> = {
  services: Services
  organisationId: string
  environment: 'live' | 'test'
  client: Client
  /** Aborted when the client has left; its work may go on. */
  gone: AbortSignal
  /** Aborted with the GatewayError that ends the work although its client waits: it is to be thrown. */
  stopped: AbortSignal
  /** The moment of the request, in epoch milliseconds. */
  startedMs: number
  input: WorkKinds[K]['input']
  work: Work<K>
  /** What a quantity costs this client, in nano-dollars. */
  costNano(quantity: Quantity): number
  /** The headers of an answer; with its cost, where that is known before it is sent. */
  headers(costNano: number | null): Record<string, string>
  /** To be called when the provider's answer begins. */
  began(): void
  /** Sends an event, after the head of the answer where that was not sent; false = wait until the client takes more. */
  send(event: string): boolean
}

/** What was delivered; `error` = it broke off after its beginning. */
export type Delivered = { quantity: Quantity; error: ProviderError | null }

/** Waits until the client takes more, or is gone. */
export async function drained<K extends InstantKind>({ client, gone }: Delivery<K>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const listener = () => resolve()
  client.onDrain(listener)
  gone.addEventListener('abort', listener)
  if (gone.aborted) resolve()
  await promise
  gone.removeEventListener('abort', listener)
}
