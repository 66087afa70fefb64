import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { newId } from '../../shared/base/ids.ts'
import { createClientSecret } from '../../shared/keys/client-secrets.ts'
import type { Policy } from '../../shared/keys/policy.ts'
import { clientSecretRequest, realtimeQuery } from '../../shared/kinds/realtime.ts'
import type { Platform } from '../../shared/platform.ts'
import { checkUnpriced } from '../../shared/providers/toolkit/tool-guard.ts'
import { sessionTargets } from '../../shared/realtime/opening.ts'
import { intentOf, type SessionRequest, settingsOf } from '../../shared/realtime/settings.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'

const tag = 'Realtime'
const access = { scope: '*' } as const

const openSession = endpoint({
  method: 'get',
  path: '/v1/realtime',
  operationId: 'openRealtimeSession',
  tag,
  summary: 'Open a realtime session (WebSocket)',
  description: `Connect with a WebSocket client (\`wss:\`). \`GET /v1/models?type=realtime\` and \`?type=live_video\` list the models.

**Authentication.** Servers send \`Authorization: Bearer <key>\` or \`x-api-key: <key>\`. Pages cannot set headers: they offer the subprotocols \`realtime\` and
\`openai-insecure-api-key.<secret>\`, with a client secret in place of a key. The response selects \`realtime\` alone. Keys in the URL are rejected.

**Frames.** Each model uses its provider’s protocol, and every frame is passed through unchanged, text or binary, up to 16 MiB. Sessions with test keys
use OpenAI’s realtime events with the sandbox, whatever the model: it answers with fixed audio and a transcript.

**Tools** are functions, which the client runs. A frame that names others (searches, containers, MCP servers) or a stored prompt
is not forwarded: the gateway sends an \`error\` event with the code \`unsupported_capability\`, and the session continues.

**Errors.** Errors before the session opens are ordinary JSON responses. If no provider accepts the session, the WebSocket
is opened, receives one \`error\` event and is closed with 1011. The gateway’s own \`error\` events have the fields of the JSON
errors, in the format of the model’s protocol.

**Close codes.** Codes and reasons of either side are forwarded to the other. The gateway’s own:

| code | reason |
|---|---|
| 1008 | a message came in thousands of tiny pieces or fragments |
| 1011 | the provider failed |
| 1013 | the gateway is restarting or its store is unavailable: open another session |
| 4400 | a frame before the session began was invalid or asked for an unsupported feature, or tools and settings exceeded their size limit |
| 4401 | the key was revoked, disabled or blocked, or has expired |
| 4402 | credits, the key’s spend cap or the cost limit of one session are exhausted |
| 4403 | the key may no longer use the model |
| 4408 | the session reached its maximum duration |
| 4429 | the key’s tokens per minute are exhausted |`,
  access,
  query: realtimeQuery,
  headers: [
    {
      name: 'Sec-WebSocket-Protocol',
      maxLength: 500,
      description: 'From pages: `realtime, openai-insecure-api-key.<secret>`.',
    },
  ],
  answers: { 101: { description: 'The WebSocket session.', contentType: null } },
  errors: [
    'origin_not_allowed',
    'insufficient_credits',
    'monthly_spend_cap_reached',
    'unsupported_capability',
    'model_not_allowed',
    'no_own_key',
    'own_key_refused',
    'model_not_found',
    'no_provider_available',
  ],
  handle() {
    throw new GatewayError('invalid_request', 'Open this URL as a WebSocket.', {
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
    'Creates a short-lived secret, `ek_…`, that can only open realtime sessions on behalf of the key that created it. It may be used several times until it expires or its key is revoked. An organisation may have 1,000 of them at a time (`REALTIME_MAX_CLIENT_SECRETS`).',
  access,
  secret: true,
  body: clientSecretRequest,
  example: { session: { type: 'realtime', model: 'gpt-realtime-2' } },
  free: true,
  answers: {
    200: {
      description: 'The secret, which is returned only once, and the session settings it carries.',
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
  async handle({ services, apiKey, body }) {
    const { session, expires_after: life } = body
    const { type, model = null } = session
    const settings = settingsOf(session)
    checkUnpriced(session, ['session'])
    const { policy } = apiKey
    if (model !== null) assertSessionAllowed(services, policy, { model, intent: intentOf(settings), settings })
    const secret = { keyHash: policy.hash, model, settings }
    const { value, expiresAtMs } = await createClientSecret(services, secret, {
      lifeMs: life.seconds * 1_000,
      organisationId: policy.organisationId,
      maxStored: services.config.realtime.maxClientSecrets,
    })
    const object = type === 'realtime' ? 'realtime.session' : 'realtime.transcription_session'
    return {
      value,
      expires_at: Math.floor(expiresAtMs / 1_000),
      session: { ...session, id: newId('sess'), object },
    }
  },
})

/** The fields of this body that correspond to query parameters of a session. */
const fields: Record<string, string> = { model: 'session.model', intent: 'session.type' }

/** Throws the error that would prevent a session of the secret from being opened, naming the field of this body. */
function assertSessionAllowed(services: Platform, policy: Policy, asked: SessionRequest): void {
  try {
    sessionTargets(services, policy, asked)
  } catch (error) {
    const param = error instanceof GatewayError && fields[error.param ?? '']
    if (!param) throw error
    throw new GatewayError(error.code, error.message, { param })
  }
}

/** The plain-HTTP routes of realtime sessions. */
export const realtimeRoutes: readonly Endpoint[] = [openSession, createSecret]
