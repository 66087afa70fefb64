import type { Deployment } from '../../../shared/catalog/schema.ts'
import { openai } from '../../../shared/providers/adapters/openai/protocol.ts'
import type { Protocol, ProviderConnection, QueuedCall, Source } from '../../../shared/providers/contract.ts'
import { falVideo } from './fal-calls.ts'

const traits: Deployment['traits'] = {}

/** A video call of a model that an operator describes: the shipped catalog has none at OpenAI-shaped servers. */
export function shapedCall(
  more: object = {},
  sources: Record<string, Source> = {},
  callbackUrl: string | null = null,
): QueuedCall<'video'> {
  const call = falVideo('seedance-1.5-pro', { seconds: 8, resolution: '720p', ...more }, sources, callbackUrl)
  const deployment = { ...call.target.deployment, upstream_model: 'acme/films', traits }
  return { ...call, target: { ...call.target, deployment } }
}

/** The protocol as a provider whose quirk `videos` is this one gets it. */
export function shapedProtocol(videos: 'openai' | 'openrouter'): Protocol {
  const adapter = openai.queued!.video!
  const shaped = (connection: ProviderConnection): ProviderConnection => ({
    ...connection,
    provider: { ...connection.provider, quirks: { videos } },
  })
  return {
    ...openai,
    queued: {
      video: {
        ...adapter,
        start: (call, connection, after) => adapter.start(call, shaped(connection), after),
        check: (operation, connection) => adapter.check(operation, shaped(connection)),
      },
    },
  }
}
