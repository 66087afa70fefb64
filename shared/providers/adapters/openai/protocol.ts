import type { Protocol } from '../../contract.ts'
import { fittedChat } from '../../profile/fit-chat.ts'
import type { RealtimeAdapter } from '../../realtime-contract.ts'
import { chatOverResponses } from '../../toolkit/chat-over-responses/adapter.ts'
import { jinaForm, rerankAdapter, voyageForm } from '../../toolkit/rerank.ts'
import { batch } from './batches.ts'
import { chat } from './chat.ts'
import { completion } from './completion.ts'
import { embedding } from './embedding.ts'
import { failure } from './failure.ts'
import { image } from './images.ts'
import { live } from './live.ts'
import { moderation } from './moderation.ts'
import { ocr } from './ocr.ts'
import { realtime } from './realtime.ts'
import { responses } from './responses.ts'
import { speech } from './speech.ts'
import { transcription } from './transcription.ts'
import { verify, videos } from './videos.ts'

/** Servers such as vLLM have Jina's form. */
const rerank = rerankAdapter(({ target }) => (target.provider.quirks?.rerank === 'voyage' ? voyageForm : jinaForm))

const sessions: Record<string, RealtimeAdapter> = { openai: realtime, openai_live: live }

/**
 * OpenAI's dialect, which many providers and local servers support. Their differences are quirks of the provider's row
 * (`shared/catalog/provider-quirks.ts`).
 */
export const openai: Protocol = {
  direct: { chat: fittedChat(chat, chatOverResponses(responses)), completion, embedding, responses },
  queued: { video: videos },
  synchronous: { image, speech, transcription, rerank, moderation, ocr },
  realtime: ({ traits }) => sessions[traits?.dialect ?? ''] ?? null,
  batch,
  verify,
  verifiesBySecret: true,
  // OpenRouter lists its models without a key.
  credentialCheck: ({ quirks }) =>
    quirks?.credential_path === 'none' ? null : { path: quirks?.credential_path ?? '/models' },
  failure,
}
