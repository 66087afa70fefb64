import { chatFormats } from '../../shared/chat/chat-formats.ts'
import { run } from '../../shared/chat/run.ts'
import type { ChatRunInput } from '../../shared/chat/run-input.ts'
import type { ResponseWriter } from '../../shared/engine/response-writer.ts'
import type { DirectKind, DirectKinds } from '../../shared/kinds/index.ts'
import type { Features } from '../../shared/routing/features.ts'
import type { NamingBody } from '../../shared/routing/session-in-metadata.ts'
import type { DirectRequest } from '../endpoint.ts'
import { labelsOf } from './labels.ts'
import { allowsCacheMarks, sessionOf } from './session-name.ts'

type Streamable = {
  stream?: boolean | null | undefined
  stream_options?: { include_usage?: boolean | undefined } | null | undefined
}

type OwnInput<K extends DirectKind> = {
  /** The fields that may name the conversation; the body itself by default. */
  naming?: NamingBody
  /** Whether nothing but the gateway names the conversation, which may have this request only. */
  begins?: boolean
  forwarded?: ChatRunInput<K>['forwarded']
  /** What runs instead of the request as the client sent it. */
  turn?: { body: DirectKinds[K]['request']; raw: Buffer }
  storage?: ChatRunInput<K>['storage']
}

/** What a run needs of its request. */
export type RunRequest<Body> = Pick<
  DirectRequest<Body>,
  'services' | 'apiKey' | 'body' | 'raw' | 'requestId' | 'headers' | 'wide'
> & { client: ResponseWriter }

/** Runs a validated request; the run responds through the request's own client. */
export async function runDirect<K extends DirectKind>(
  kind: K,
  { services, apiKey, body: sent, raw, requestId, client, headers, wide }: RunRequest<DirectKinds[K]['request']>,
  features: Features,
  { naming = sent as NamingBody, begins = false, forwarded, turn, storage }: OwnInput<K> = {},
): Promise<void> {
  const { stream, stream_options } = sent as Streamable
  const report = await run(
    services,
    {
      kind,
      key: apiKey,
      body: turn?.body ?? sent,
      raw: turn?.raw ?? raw,
      features,
      requestId,
      session: sessionOf(headers, naming),
      begins,
      marksCache: chatFormats[kind].marksCache && allowsCacheMarks(headers) && services.config.cacheMarks,
      labels: labelsOf(headers),
      stream: stream === true,
      includeUsage: stream_options?.include_usage === true,
      ...(forwarded && { forwarded }),
      ...(storage && { storage }),
      bulk: null,
    },
    client,
  )
  Object.assign(wide, report)
}
