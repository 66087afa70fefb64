import type { ResponsesRequest } from '../../shared/kinds/responses.ts'
import type { OpenTurn } from '../../shared/responses/turn.ts'
import { responsesFeatures } from '../../shared/routing/responses-features.ts'
import { type RunRequest, runDirect } from './run-direct.ts'

/** Runs a request for a response with what it continues, and stores the response where the turn says so. */
export async function runResponse(
  request: RunRequest<ResponsesRequest>,
  { storage, session, begins, ...turn }: OpenTurn,
): Promise<void> {
  const features = responsesFeatures(turn.body, turn.raw.length)
  const naming = session === null ? request.body : { prompt_cache_key: session }
  await runDirect('responses', request, features, { naming, begins, turn, ...(storage && { storage }) })
}
