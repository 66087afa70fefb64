import type { Protocol } from '../../contract.ts'
import { fittedChat } from '../../profile/fitted-chat.ts'
import type { RealtimeAdapter } from '../../realtime-contract.ts'
import { batch } from './batches.ts'
import { chat } from './chat.ts'
import { completion } from './completion.ts'
import { embedding } from './embedding.ts'
import { failure } from './failure.ts'
import { image } from './images.ts'
import { live } from './live.ts'
import { realtime } from './realtime.ts'
import { responses } from './responses.ts'
import { speech } from './speech.ts'
import { transcription } from './transcription.ts'
import { verify, videos } from './videos.ts'

const sessions = new Map<unknown, RealtimeAdapter>([
  ['openai', realtime],
  ['openai_live', live],
])

/**
 * OpenAI's dialect, which many providers and local servers support. Their differences are quirks of the provider's row:
 * `max_tokens_field`, `seed_field`, `stream_usage`, `request_fields`, `metadata`, `responses` (it has the endpoint of that name; also a trait of deployments), `namespace_tools`, `videos`, `images`, `audio` (it has
 * the endpoints for speech and transcriptions) `batches` (it has those for files and batches) and `credential_path` (what is requested to check a key; default `/models`); the deployment trait
 * `reasoning` marks models that reject sampling fields, `diarizes` models that identify speakers.
 */
export const openai: Protocol = {
  direct: { chat: fittedChat(chat), completion, embedding, responses },
  queued: { video: videos },
  instant: { image, speech, transcription },
  realtime: ({ traits }) => sessions.get(traits?.dialect) ?? null,
  batch,
  verify,
  verifiesBySecret: true,
  // OpenRouter lists its models without a key.
  credentialCheck: ({ quirks }) => ({ path: String(quirks?.credential_path ?? '/models') }),
  failure,
}
