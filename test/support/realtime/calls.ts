import type { Account } from '../gateway.ts'

type Call = { path?: string; key?: string; body?: object }
type Documented = { success: () => Call[]; errors: () => Call[] }

const model = 'gpt-realtime-2.1'
const session = { type: 'realtime', model, instructions: 'Be brief.', audio: { output: { voice: 'marin' } } }

/** Real calls of the routes of realtime sessions, as documented: by their names in the OpenAPI document. */
export function realtimeCalls(world: () => { account: Account; provisioning: string }): Record<string, Documented> {
  const secrets = (...bodies: object[]): Call[] => bodies.map(body => ({ key: world().account.test, body }))
  return {
    'GET /v1/realtime': {
      // What it answers otherwise is no answer of HTTP.
      success: () => [],
      errors: () => [
        {},
        { key: world().provisioning },
        ...['', `?model=${model}`, '?colour=red'].map(query => ({
          key: world().account.test,
          path: `/v1/realtime${query}`,
        })),
      ],
    },
    'POST /v1/realtime/client_secrets': {
      success: () =>
        secrets({}, { session }, { expires_after: { seconds: 10 }, session: { type: 'transcription', model } }),
      errors: () => [
        { body: {} },
        { key: world().provisioning, body: {} },
        // No provider is configured for live keys.
        { key: world().account.live, body: { session } },
        ...secrets({ colour: 'red' }, { expires_after: { seconds: 7_201 } }, { session: { model: 'nope' } }),
      ],
    },
  }
}
