import type { ErrorDialect } from './error-response.ts'
import { isGoogleRoute } from './google-dialect.ts'

/**
 * The paths of other APIs that clients send here, and the resources of OpenAI and Anthropic that are not offered, each with
 * the sentence that its caller is told. A pattern is a path without its leading `/v1`, `/openai` or `/api/v1`, after a method
 * if only that one counts; `*` is one segment, `**` anything, `/**` at the end also nothing. The first row that fits counts.
 * `{route}` becomes the own route with the same ending, otherwise POST /v1/chat/completions.
 */
type Row = readonly [advice: string, patterns: string]

const inModel = 'with the name of the model in `model`'
const gemini = 'This part of Gemini’s API is not offered'
const ollama = 'Ollama’s own API is not offered'
const none = 'no other route takes their place'

/** Routes of ours below Google's base URL. */
const belowGoogle: Row[] = [
  [
    'Did you mean {route}? Check the base URL of the client.',
    '/v1beta/chat/completions /v1beta/completions /v1beta/responses /v1beta/messages /v1beta/embeddings ' +
      '/v1beta/images/** /v1beta/audio/** /v1beta/rerank /v1beta/moderations',
  ],
]

const google: Row[] = [
  [
    `${gemini}: use POST /v1beta/models/{model}:generateContent.`,
    '/**:generateContent /**:streamGenerateContent /tunedModels/**',
  ],
  [`${gemini}: use POST /v1beta/models/{model}:countTokens.`, '/**:countTokens /**:computeTokens'],
  [`${gemini}: use POST /v1beta/models/{model}:batchEmbedContents.`, '/**:embedContent /**:batchEmbedContents'],
  [`${gemini}: use POST /v1/images ${inModel}.`, '/**:predict /**:editImage /**:upscaleImage /**:recontextImage'],
  [`${gemini}: use POST /v1/videos ${inModel}.`, '/**:predictLongRunning /**:fetchPredictOperation'],
  [`${gemini}: use POST /v1/batches.`, '/**:batchGenerateContent /**:asyncBatchEmbedContent'],
  [
    `${gemini}: use a WebSocket at /v1/realtime?model=….`,
    '/**:bidiGenerateContent /ws/google.ai.generativelanguage.** /ws/google.cloud.aiplatform.**',
  ],
  [`${gemini}: GET /v1beta/models lists the models.`, 'GET /v1beta1/**/models'],
  [`${gemini}: send files in \`inlineData\` of the request.`, '/v1beta/files/** /upload/**'],
  [
    `${gemini}: caches would be in the operator’s account, which all organisations share. Send the contents with each request: ` +
      'Gemini’s models cache the beginning of prompts by themselves.',
    '/cachedContents/** /v1beta/cachedContents/** /v1alpha/cachedContents/** /v1beta1/**/cachedContents/** /projects/**/cachedContents/**',
  ],
  [
    `${gemini}: use POST /v1/realtime/client_secrets.`,
    '/auth_tokens/** /v1beta/auth_tokens/** /v1alpha/auth_tokens/**',
  ],
  [
    `${gemini}: use POST /v1beta/models/{model}:generateContent with the whole conversation.`,
    '/interactions/** /v1beta/interactions/** /v1alpha/interactions/**',
  ],
  [
    `${gemini}: search your own documents, with vectors of POST /v1beta/models/{model}:batchEmbedContents.`,
    '/fileSearchStores/** /v1beta/fileSearchStores/** /v1alpha/fileSearchStores/**',
  ],
  [
    `${gemini}: use POST /v1beta/models/{model}:generateContent.`,
    '/v1beta/*/** /v1alpha/*/** /v1beta1/** /projects/*/locations/** /tuningJobs/** /triggers/**',
  ],
]

/** Paths that Google's API shares with others: only for its own clients. @google/genai and google-genai 3 have them below `/v1`. */
const googleClients: Row[] = [
  [`${gemini}: send files in \`inlineData\` of the request.`, '/files/** /files:register'],
  [`${gemini}: use POST /v1/batches.`, '/batches/**'],
  [
    `${gemini}: use POST /v1beta/models/{model}:generateContent.`,
    '/agents/** /environments/** /voices/** /webhooks/** /decisions',
  ],
]

const anthropic: Row[] = [
  [
    `Claude on Vertex AI has another path: use POST /v1/messages ${inModel}.`,
    '/**:rawPredict /**:streamRawPredict /**/count-tokens:rawPredict',
  ],
  ['Text completions of Anthropic are not offered: use POST /v1/messages.', '/complete'],
  [
    'Batches in Anthropic’s format are not offered: use POST /v1/batches with lines for /v1/messages.',
    '/messages/batches/**',
  ],
  [
    `Anthropic’s administration is not offered: keys are managed at GET and POST /api/v1/keys.`,
    '/organizations/api_keys/** /organizations/workspaces/**',
  ],
  ['Anthropic’s usage reports are not offered: use GET /api/v1/usage.', '/organizations/**'],
]

/** Paths that Anthropic’s API shares with others: only for its own clients. */
const anthropicClients: Row[] = [
  [
    'Files in Anthropic’s format are not offered: send them inside of the request to POST /v1/messages, as base64 or by URL.',
    '/files/**',
  ],
  [
    'Managed agents of Anthropic are not offered: use POST /v1/messages with your own tools.',
    '/agents/** /sessions/** /environments/** /vaults/** /memory_stores/** /user_profiles/** ' +
      '/deployments/** /deployment_runs/** /dreams/** /tunnels/**',
  ],
  [`The compliance reviews of Anthropic are not offered, and ${none}.`, '/compliance/**'],
  ['Skills are not offered: describe the work in `system` of POST /v1/messages.', '/skills/**'],
]

const openai: Row[] = [
  ['Azure’s paths are not offered: use {route}, by an OpenAI client with the base URL …/v1.', '/deployments/**'],
  [
    'Uploads in parts are not offered: send the whole file to POST /v1/files.',
    '/uploads/*/parts /uploads/*/complete /uploads/*/cancel',
  ],
  ['Assistants are not offered: use POST /v1/responses.', '/assistants/**'],
  ['Threads and runs are not offered: use POST /v1/responses, with POST /v1/conversations.', '/threads/**'],
  [
    'Vector stores are not offered: search your own documents, with vectors of POST /v1/embeddings.',
    '/vector_stores/** /search',
  ],
  [`Fine-tuning is not offered, and ${none}.`, '/fine_tuning/** /fine-tunes/** /fine_tunes/**'],
  ['Chats are moderated by POST /v1/moderations, as one text.', '/chat/moderations'],
  [`Evals and graders are not offered, and ${none}.`, '/evals/** /graders/**'],
  [`Containers are not offered, and ${none}.`, '/containers/**'],
  ['ChatKit is not offered: use POST /v1/responses.', '/chatkit/**'],
  ['Skills are not offered: describe the work in `instructions` of POST /v1/responses.', '/skills/**'],
  ['Variations of images are not offered: use POST /v1/images/edits with a prompt.', '/images/variations'],
  [
    'The administration of OpenAI is not offered: keys are managed at GET and POST /api/v1/keys.',
    '/organization/admin_api_keys/** /organization/projects/** /projects/**',
  ],
  ['The usage reports of OpenAI are not offered: use GET /api/v1/usage.', '/organization/usage/** /organization/costs'],
  [
    'The administration of OpenAI is not offered: members are managed on the dashboard, keys at /api/v1/keys.',
    '/organization/**',
  ],
  [
    'Chat completions are not stored: use POST /v1/responses, whose answers the organisation can keep.',
    '/chat/completions/chatcmpl-* /chat/completions/chatcmpl-*/**',
  ],
  [
    'POST /v1/responses/compact compacts the conversation that it gets as `input` or by `previous_response_id`.',
    '/responses/*/compact',
  ],
  [
    'WebRTC and SIP are not offered: use a WebSocket at /v1/realtime, with a key of POST /v1/realtime/client_secrets.',
    'POST /realtime /realtime/calls/** /realtime/sessions /realtime/transcription_sessions',
  ],
  [
    'Sessions that translate are not offered: use a WebSocket at /v1/realtime, with instructions to translate.',
    '/realtime/translations/**',
  ],
  [
    'Edits, extensions and characters of videos are not offered: use POST /v1/videos.',
    'POST /videos/edits POST /videos/extensions /videos/*/remix /videos/characters/**',
  ],
  ['Live sessions are not offered at this path: use a WebSocket at /v1/realtime?model=….', '/live/**'],
  ['Decisions are not offered: use POST /v1/responses with a JSON schema in `text.format`.', '/decisions'],
  [
    'Webhook endpoints are managed at GET and POST /api/v1/webhook-endpoints.',
    '/webhook_endpoints/** /webhook_event_types',
  ],
  [`Checks of provenance are not offered, and ${none}.`, '/content_provenance_checks'],
  [`Safety cases of OpenAI are not offered, and ${none}.`, '/safety/**'],
  ['Voices of one’s own are not offered: POST /v1/audio/speech takes the model’s voices.', '/audio/voice** /voices/**'],
  ['The list of engines is now GET /v1/models.', 'GET /engines/**'],
  [`Edits are not offered: use POST /v1/chat/completions.`, '/edits'],
  ['The credits of an organisation are at GET /v1/balance.', 'GET /credits GET /dashboard/billing/** GET /key'],
]

const cohere: Row[] = [
  ['Cohere’s own API is not offered: use POST /v1/chat/completions.', 'POST /v2/chat POST /chat POST /v2/generate'],
  ['Cohere’s own API is not offered: use POST /v1/embeddings.', 'POST /v2/embed POST /embed'],
]

const others: Row[] = [
  ['Code is completed by POST /v1/completions, with a `suffix`.', '/fim/completions'],
  // @ai-sdk/gateway 3, whose protocol is that of the AI SDK's own models.
  [
    'Vercel’s gateway protocol is not offered: use POST /v1/chat/completions, by @ai-sdk/openai-compatible.',
    '/language-model',
  ],
  [
    'Vercel’s gateway protocol is not offered: use POST /v1/embeddings, by @ai-sdk/openai-compatible.',
    '/embedding-model',
  ],
  ['Agents of Mistral are not offered: use POST /v1/chat/completions.', '/agents/completions'],
  [
    'Agents of OpenAI and Mistral are not offered: use POST /v1/responses or POST /v1/chat/completions, with your own tools.',
    '/agents/** /vaults/**',
  ],
  ['Mistral’s batches are not offered: use POST /v1/batches.', '/batch/jobs/**'],
  [
    'Mistral’s conversations are not offered: use POST /v1/responses, with POST /v1/conversations.',
    '/conversations/*/history /conversations/*/messages /conversations/*/restart',
  ],
  [
    'Mistral’s libraries are not offered: search your own documents, with vectors of POST /v1/embeddings.',
    '/libraries/**',
  ],
  [`Classifiers of one’s own are not offered, and ${none}.`, '/classifications /chat/classifications'],
  [
    'Voyage’s vectors of pages are not offered: use POST /v1/embeddings.',
    '/multimodalembeddings /contextualizedembeddings',
  ],
  ['Documents are read by POST /v1/ocr.', '/providers/mistral/azure/ocr /ocr/batch/**'],
  ['Documents are ranked by POST /v1/rerank.', '/v3/rerank /reranking /api/rerank /score /pooling /classify'],
  [
    'The servers of Hugging Face, vLLM and llama.cpp have this path: use POST /v1/chat/completions or /v1/completions.',
    'POST /generate POST /generate_stream POST /completion POST /infill POST /invocations POST /fim',
  ],
  [
    'The servers of Hugging Face and llama.cpp have this path: use POST /v1/embeddings.',
    'POST /embed_all POST /embedding',
  ],
  [
    'POST /v1/messages/count_tokens and POST /v1/responses/input_tokens count tokens, free of charge.',
    'POST /tokenize POST /detokenize POST /api/tokenize',
  ],
  ['GET /healthz tells whether this service is up.', 'GET /health GET /health/** GET /ping GET /info'],
  ['Deepgram’s own API is not offered: use POST /v1/audio/transcriptions.', '/listen'],
  ['Deepgram’s own API is not offered: use POST /v1/audio/speech.', '/speak'],
  [
    'The APIs of ElevenLabs and Google are not offered: use POST /v1/audio/speech.',
    '/text-to-speech/** /text-to-dialogue/** /text:synthesize',
  ],
  [
    'The APIs of ElevenLabs, AssemblyAI and Google are not offered: use POST /v1/audio/transcriptions.',
    '/speech-to-text/** /speech:recognize /v2/transcript/** POST /asr POST /inference',
  ],
  [
    `ElevenLabs’ own API is not offered, and ${none}.`,
    '/voice-changer/** /audio-isolation/** /dubbing/** /forced-alignment /history/** /text-to-voice/** /studio/** /pronunciation-dictionaries/**',
  ],
  ['ElevenLabs’ agents are not offered: use a WebSocket at /v1/realtime.', '/convai/**'],
  ['ElevenLabs’ own API is not offered: use POST /v1/realtime/client_secrets.', '/single-use-token/**'],
  ['ElevenLabs’ usage reports are not offered: use GET /api/v1/usage.', '/usage/character-stats'],
  [`Deepgram’s own API is not offered, and ${none}.`, '/read'],
  ['ElevenLabs’ own API is not offered: use POST /v1/audio/sfx.', '/sound-generation'],
  ['ElevenLabs’ own API is not offered: use POST /v1/audio/music.', '/music/**'],
  ['ElevenLabs’ own API is not offered: GET /v1/avatars/voices lists voices.', '/v2/voices'],
  ['xAI’s own API of speech is not offered: use POST /v1/audio/speech.', 'POST /tts'],
  ['xAI’s own API of transcripts is not offered: use POST /v1/audio/transcriptions.', 'POST /stt'],
  ['Fireworks’ own API of images is not offered: use POST /v1/images.', 'POST /workflows/**'],
  ['Stability’s own API is not offered: use POST /v1/images.', '/v2beta/stable-image/** /generation/*/text-to-image'],
  ['Runway’s own API is not offered: use POST /v1/videos.', 'POST /image_to_video POST /text_to_video'],
  ['HeyGen’s own API is not offered: use POST /v1/avatars/videos.', 'POST /v2/video/generate'],
]

const replicate: Row[] = [
  [
    'Replicate’s own API is not offered: use POST /v1/images or POST /v1/videos.',
    '/predictions/** /models/*/*/predictions /deployments/*/*/predictions /collections/** /trainings/**',
  ],
]

const fal: Row[] = [
  ['The API of fal is not offered: use POST /v1/images, POST /v1/videos or POST /v1/audio/music.', '/fal-ai/**'],
]

const bedrock: Row[] = [
  [
    `Bedrock’s API is not offered: use POST /v1/chat/completions, or POST /v1/messages for Claude, ${inModel}.`,
    '/model/**/converse /model/**/converse-stream /model/**/invoke /model/**/invoke-with-response-stream',
  ],
]

const ollamaPaths: Row[] = [
  [`${ollama}: use POST /v1/chat/completions.`, '/api/chat'],
  [`${ollama}: use POST /v1/completions, or POST /v1/chat/completions.`, '/api/generate'],
  [`${ollama}: use POST /v1/embeddings.`, '/api/embed /api/embeddings'],
  [`${ollama}: GET /v1/models lists the models.`, '/api/tags /api/ps'],
  [`${ollama}: GET /v1/models/{model} describes a model.`, '/api/show'],
  [
    `${ollama}: use POST /v1/chat/completions.`,
    '/api/version /api/pull /api/push /api/create /api/copy /api/delete /api/blobs/**',
  ],
]

const wildcards: { [part: string]: string } = { '/**': '(?:/.*)?', '**': '.+', '*': '[^/]+' }

/** `isShared`: only for clients of that dialect. */
type Compiled = { advice: string; patterns: RegExp; dialect: ErrorDialect; isShared: boolean }

const compile = (dialect: ErrorDialect, rows: Row[], isShared = false): Compiled[] =>
  rows.map(([advice, patterns]) => ({ advice, patterns: expressionOf(patterns), dialect, isShared }))

const table: readonly Compiled[] = [
  ...compile('messages', anthropicClients, true),
  ...compile('google', googleClients, true),
  ...compile('messages', anthropic),
  ...compile('text', ollamaPaths),
  ...compile('flat', bedrock),
  ...compile('flat', cohere),
  ...compile('usual', belowGoogle),
  ...compile('google', google),
  ...compile('detail', replicate),
  ...compile('detail', fal),
  ...compile('usual', openai),
  ...compile('usual', others),
]

/** One expression for the patterns of a row, over a method and a path. */
function expressionOf(patterns: string): RegExp {
  const alternatives = Array.from(patterns.matchAll(/(?:([A-Z]+) )?(\S+)/g), ([, method = '[A-Z]+', path = '']) => {
    const parts = path.split(/(\/\*\*$|\*\*|\*)/)
    return `${method} ${parts.map(part => wildcards[part] ?? part.replace(/[.:{}]/g, '\\$&')).join('')}`
  })
  return new RegExp(`^(?:${alternatives.join('|')})$`)
}

/** What base URLs have before the path of a resource. */
const basePrefix = /^(?:\/(?:api\/)?v1(?=\/)|(?:\/v1beta)?\/openai(?=\/))+/
/** No path of another API is longer. */
const maxPathLength = 512

/**
 * What the caller of a path of another API is told, and in which format; null for any other path. `client`: the dialect of
 * the client, where its headers tell. `ownRoute`: the route with the same ending.
 */
export function findForeignPath(
  { method, path, client }: { method: string; path: string; client: ErrorDialect | null },
  ownRoute: () => string | null,
): { advice: string; dialect: ErrorDialect } | null {
  if (path.length > maxPathLength || isGoogleRoute(method, path)) return null
  const asked = `${method} ${path.replace(basePrefix, '').replace(/(?<=.)\/$/, '')}`
  const takes = (row: Compiled) => !row.isShared || (row.dialect === client && path.startsWith('/v1/'))
  const row = table.find(row => takes(row) && row.patterns.test(asked))
  if (!row) return null
  const route = () => {
    const own = ownRoute()
    return own === null ? 'POST /v1/chat/completions' : `${method} ${own}`
  }
  return { advice: row.advice.replace('{route}', route), dialect: row.dialect }
}
