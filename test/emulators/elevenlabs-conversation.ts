import type { IncomingMessage } from 'node:http'
import { type ProviderSession, refuse, SessionEmulator, type Upgrade } from './sessions.ts'

export const agent = 'agent_7101k5zvyjhmfg983brhmhkd98n6'
const noSuchAgent = 'The AI agent you are trying to reach does not exist.'

/** ElevenLabs' agents on a local port; the API key `invalid` is refused, and so is every agent but `agent`. */
export function startConversations(): Promise<SessionEmulator> {
  return SessionEmulator.start(hold, admit)
}

function admit({ headers, url }: IncomingMessage): Upgrade | null {
  const { pathname } = new URL(url ?? '/', 'http://emulator')
  if (pathname !== '/v1/convai/conversation') return refuse(404, { detail: 'Not Found' })
  // Without a key a public agent answers.
  return headers['xi-api-key'] === 'invalid' ? refuse(401, { detail: { status: 'invalid_api_key' } }) : null
}

/** Repeats the audio that it received; sends a `ping` first. */
function hold(session: ProviderSession) {
  if (session.query.get('agent_id') !== agent) return session.socket.close(3000, noSuchAgent)
  let events = 0
  const audio = (audio_base_64: string) =>
    session.send({ type: 'audio', audio_event: { audio_base_64, event_id: ++events } })
  const answer = (text: string) =>
    session.send({ type: 'agent_response', agent_response_event: { agent_response: text } })
  session.socket.on('message', (frame: Buffer) => {
    const event = JSON.parse(frame.toString())
    if (event.type === 'conversation_initiation_client_data') {
      const formats = { agent_output_audio_format: 'pcm_16000', user_input_audio_format: 'pcm_16000' }
      session.send({
        type: 'conversation_initiation_metadata',
        conversation_initiation_metadata_event: { conversation_id: 'conv_1', ...formats },
      })
      session.send({ type: 'ping', ping_event: { event_id: ++events, ping_ms: 20 } })
    }
    if (event.type === 'user_message') answer(event.text)
    if (typeof event.user_audio_chunk !== 'string') return
    session.send({ type: 'user_transcript', user_transcription_event: { user_transcript: 'Hello.' } })
    answer('Hello.')
    audio(event.user_audio_chunk)
  })
}
