import type { SyncKind } from '../../shared/kinds/index.ts'
import { type MediaRunInput, runMedia } from '../../shared/media/run.ts'
import type { RequestWithoutKoa } from '../endpoint.ts'
import { labelsOf, timeoutsOf } from './request-headers.ts'

/** The part of a media run that its request says nothing about. `stream`, `events`: false by default. */
type OwnInput<K extends SyncKind> = Pick<MediaRunInput<K>, 'kind' | 'body' | 'dropped' | 'check' | 'deliver'> &
  Partial<Pick<MediaRunInput<K>, 'stream' | 'events'>>

/** Runs a validated media request; the run responds through the request's own client. */
export async function runMediaRequest<K extends SyncKind>(
  { services, apiKey, requestId, client, headers, logFields }: RequestWithoutKoa<unknown>,
  own: OwnInput<K>,
): Promise<void> {
  const input: MediaRunInput<K> = {
    stream: false,
    events: false,
    ...own,
    key: apiKey,
    requestId,
    labels: labelsOf(headers),
    timeouts: timeoutsOf(headers, own.body, services),
  }
  Object.assign(logFields, await runMedia(services, input, client))
}
