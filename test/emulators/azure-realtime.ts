import type { IncomingMessage } from 'node:http'
import type { AzureOptions } from './azure.ts'
import { type Answer, holdConversation } from './openai-realtime.ts'
import { refuse, SessionEmulator, type Upgrade } from './sessions.ts'

/**
 * Realtime sessions of a resource of Azure OpenAI on a local port: `/openai/v1/realtime?model=<deployment>`, without the version that
 * the former API has (learn.microsoft.com, *Migration from Preview to GA version of Realtime API*; livekit/agents#5228: a 401). Refusals have
 * Azure's form and words, `OpperationNotSupported` among them (learn.microsoft.com/en-us/answers/a/12820829).
 */
export function startAzureRealtime(options: AzureOptions, answers: Answer[] = []): Promise<SessionEmulator> {
  return SessionEmulator.start(
    session =>
      holdConversation(
        session,
        () => answers.shift() ?? {},
        () => {},
      ),
    request => refusalOf(request, options),
  )
}

const refused = (status: number, code: string, message: string): Upgrade =>
  refuse(status, { error: { code, message } }, { 'apim-request-id': 'emulated', 'x-ms-region': 'East US 2' })

function refusalOf(
  { headers, url }: IncomingMessage,
  { apiKey, deployments, acceptsToken }: AzureOptions,
): Upgrade | null {
  const { pathname, searchParams } = new URL(url ?? '/', 'http://emulator')
  const token = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1]
  const isKey = headers['api-key'] === apiKey || token === apiKey
  const isAllowed = isKey || (token !== undefined && acceptsToken?.(token) === true)
  if (!isAllowed || searchParams.has('api-version'))
    return refused(401, '401', 'Access denied due to invalid subscription key or wrong API endpoint.')
  if (pathname !== '/openai/v1/realtime') return refused(404, '404', 'Resource not found')
  const model = deployments[searchParams.get('model') ?? '']
  if (!model) return refused(404, 'DeploymentNotFound', 'The API deployment for this resource does not exist.')
  if (/^gpt-realtime(?!-whisper|-translate)/.test(model)) return null
  return refused(
    400,
    'OpperationNotSupported',
    'The realtime operation does not work with the specified model. Please choose different model and try again.',
  )
}
