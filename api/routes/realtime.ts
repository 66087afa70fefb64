import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { createClientSecret } from '../../shared/keys/client-secrets.ts'
import type { Policy } from '../../shared/keys/policy.ts'
import { clientSecretRequest, realtimeQuery } from '../../shared/kinds/realtime.ts'
import { checkTools } from '../../shared/providers/session-tools.ts'
import { sessionTargets } from '../../shared/realtime/opening.ts'
import { type Asked, intentOf, settingsOf } from '../../shared/realtime/settings.ts'
import type { Services } from '../../shared/services.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { admitFree } from '../middleware/key.ts'

const tag = 'Realtime'
const access = { scope: '*' } as const

const openSession = endpoint({
  method: 'get',
  path: '/v1/realtime',
  operationId: 'openRealtimeSession',
  tag,
  summary: 'Open a realtime session (WebSocket)',
  description: `Open it as a WebSocket (\`wss:\`). \`GET /v1/models?type=realtime\` and \`?type=live_video\` list the models.

**Key.** A server sends \`Authorization: Bearer <key>\` or \`x-api-key: <key>\`. A page cannot: it offers the subprotocols \`realtime\` and
\`openai-insecure-api-key.<secret>\`, with a client secret in place of a key. The answer names \`realtime\` alone. A key in the address is refused.

**Frames.** Each model speaks its own protocol, and every frame passes as it is, text or binary, up to 16 MiB. Test keys talk
to the sandbox in OpenAI’s realtime events, whatever the model: it answers with the same sound and a transcript.

**Tools** are functions, which the client runs. A frame that names others (searches, containers, MCP servers) or a stored prompt
is not passed on: an \`error\` event \`unsupported_capability\` says so, and the session goes on.

**Errors.** Whatever keeps the session from being opened is an ordinary JSON answer. Where no provider took it, the WebSocket
is opened, told so in one \`error\` event and closed with 1011. The gateway’s own \`error\` events have the fields of the JSON
errors, in the shape of the model’s protocol.

**Close codes.** Codes and reasons of either side are passed on to the other. The gateway’s own:

| code | reason |
|---|---|
| 1011 | the provider failed |
| 1013 | the gateway restarts, or its store is away: open another session |
| 4400 | a frame before the beginning of the session could not be read, or asked for what sessions do not have; or too much of tools and settings at once |
| 4401 | the key was revoked or has expired |
| 4402 | credits, the key’s cap, or what one session may cost are used up |
| 4403 | the key may no longer use the model |
| 4408 | the session lasted as long as one may |
| 4429 | the key’s tokens per minute are used up |`,
  access,
  query: realtimeQuery,
  headers: [
    {
      name: 'Sec-WebSocket-Protocol',
      maxLength: 500,
      description: 'From pages: `realtime, openai-insecure-api-key.<secret>`.',
    },
  ],
  answers: { 101: { description: 'The session, as a WebSocket.', contentType: null } },
  errors: [
    'origin_not_allowed',
    'insufficient_credits',
    'monthly_spend_cap_reached',
    'unsupported_capability',
    'model_not_allowed',
    'model_not_found',
    'no_provider_available',
  ],
  handle() {
    throw new GatewayError('invalid_request', 'Open this address as a WebSocket.', {
      headers: { connection: 'upgrade', upgrade: 'websocket' },
    })
  },
})

const createSecret = endpoint({
  method: 'post',
  path: '/v1/realtime/client_secrets',
  operationId: 'createRealtimeClientSecret',
  tag,
  summary: 'Create a client secret',
  description:
    'A short-lived secret, `ek_…`, that opens realtime sessions under the key that made it, and nothing else. It may be used several times until it expires, and goes with its key.',
  access,
  secret: true,
  body: clientSecretRequest,
  example: { session: { type: 'realtime', model: 'gpt-realtime-2' } },
  answers: {
    200: {
      description: 'The secret, which appears only here, and the settings it brings.',
      schema: z
        .strictObject({
          value: z.string(),
          expires_at: z.int().describe('Unix seconds.'),
          session: z.looseObject({
            id: z.string(),
            object: z.enum(['realtime.session', 'realtime.transcription_session']),
            type: z.enum(['realtime', 'transcription']),
            model: z.string().optional(),
          }),
        })
        .meta({ id: 'RealtimeClientSecret' }),
    },
  },
  errors: ['unsupported_capability', 'model_not_allowed', 'model_not_found', 'no_provider_available'],
  async handle({ services, known, body, ctx }) {
    ctx.set(await admitFree(services, known))
    const { session, expires_after: life } = body
    const { type, model = null } = session
    const settings = settingsOf(session)
    checkTools(session, ['session'])
    const { policy } = known
    if (model !== null) mayOpen(services, policy, { model, intent: intentOf(settings), settings })
    const secret = { keyHash: policy.hash, model, settings }
    const { value, expiresAtMs } = await createClientSecret(services, secret, life.seconds * 1_000)
    const object = type === 'realtime' ? 'realtime.session' : 'realtime.transcription_session'
    return {
      value,
      expires_at: Math.floor(expiresAtMs / 1_000),
      session: { ...session, id: newId('sess'), object },
    }
  },
})

/** Where this body has what the query of a session has. */
const fields: Record<string, string> = { model: 'session.model', intent: 'session.type' }

/** Throws what would keep a session of the secret from being opened, with the field of this body. */
function mayOpen(services: Services, policy: Policy, asked: Asked): void {
  try {
    sessionTargets(services, policy, asked)
  } catch (error) {
    const param = error instanceof GatewayError && fields[error.param ?? '']
    if (!param) throw error
    throw new GatewayError(error.code, error.message, { param })
  }
}

/** Realtime sessions, as far as they are plain HTTP. */
export const realtimeRoutes: readonly Endpoint[] = [openSession, createSecret]
