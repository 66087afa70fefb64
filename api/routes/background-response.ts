import { newId } from '../../shared/base/ids.ts'
import { resumeStream } from '../../shared/delayed/resume-stream.ts'
import { submitBackground } from '../../shared/delayed/submit-background.ts'
import { answerHeaders } from '../../shared/engine/report.ts'
import type { HeldBytes } from '../../shared/io/byte-budget.ts'
import type { ResponsesRequest } from '../../shared/kinds/responses.ts'
import type { ResponsesObject } from '../../shared/kinds/responses-answer.ts'
import type { ResponseRow } from '../../shared/responses/stored-responses.ts'
import { openBackground } from '../../shared/responses/turn.ts'
import type { RequestWithoutKoa } from '../endpoint.ts'
import { sessionOf } from './request-headers.ts'

/** A response in the background that was created, with the headers of its answer. */
type Created = { response: ResponsesObject; headers: Record<string, string> }

/** Creates a response in the background. What it continues counts towards `held`. */
export async function createBackground(
  request: RequestWithoutKoa<ResponsesRequest>,
  held: HeldBytes,
): Promise<Created> {
  const { services, apiKey, body: sent, raw, origin, headers: sentHeaders, keep, logFields } = request
  const session = sessionOf(sentHeaders, sent)
  const { raw: _, ...turn } = await openBackground(services, apiKey, { body: sent, raw }, { held, session })
  const id = newId('resp')
  let headers: Record<string, string> = {}
  const response = await submitBackground(
    services,
    apiKey,
    { id, sent, ...turn },
    origin,
    async (tx, queued, { target, mode, reservation, job }) => {
      headers = answerHeaders({ id, target, mode, reservation, attempts: 0, test: job.environment === 'test' })
      await keep(tx, queued, headers)
    },
  )
  Object.assign(logFields, { generationId: id })
  return { response, headers }
}

/** Answers with a response that was created, or with its events. */
export async function answerBackground(
  request: RequestWithoutKoa<ResponsesRequest>,
  { response, headers }: Created,
): Promise<void> {
  const { services, apiKey, body, client } = request
  const row = body.stream === true ? await services.storedResponses.find(response.id, apiKey.policy) : null
  if (row) await streamEvents(request, row, { after: -1, headers })
  else client.answer(headers, JSON.stringify(response))
}

/** Streams the events of a response in the background until its end, or until the client, its key or this process is gone. */
export async function streamEvents(
  { services, apiKey, client }: Pick<RequestWithoutKoa<unknown>, 'services' | 'apiKey' | 'client'>,
  row: ResponseRow,
  answer: { after: number; headers: Record<string, string> },
): Promise<void> {
  const ending = new AbortController()
  const end = () => ending.abort()
  client.onGone(end)
  const follow = (revoked: AbortSignal) =>
    resumeStream(services, row, client, { ...answer, signal: AbortSignal.any([ending.signal, revoked]) })
  await services.shutdown.run(end, () => services.keyWatch.runWatched(apiKey, follow))
}
