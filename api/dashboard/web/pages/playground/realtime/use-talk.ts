import { useCallback, useEffect, useRef, useState } from 'react'
import { usePlayground } from '../playground-context.ts'
import { base64Of, pcmOf, Sound } from './sound.ts'
import { noTalk, type ServerEvent, type TalkState, withSentEvent, withServerEvent } from './talk.ts'

export type Talk = {
  state: TalkState
  /** The microphone's level, 0 to 1. */
  loudness: number
  /** Why there is no microphone; typing still works. */
  microphoneProblem: string | null
  muted: boolean
  open: (model: string, settings: object) => Promise<void>
  mute: (muted: boolean) => void
  write: (text: string) => void
  close: () => void
}

const normalClose = 1_000
/** Null until the client secret has been fetched. */
type Ends = { sound: Sound; socket: WebSocket | null }

/** A realtime session with OpenAI’s events, microphone and loudspeaker. It ends when the tab is left. */
export function useTalk(): Talk {
  const { client } = usePlayground()
  const [state, setState] = useState(noTalk)
  const [loudness, setLoudness] = useState(0)
  const [muted, setMuted] = useState(false)
  const [microphoneProblem, setMicrophoneProblem] = useState<string | null>(null)
  const ends = useRef<Ends | null>(null)
  const leave = useCallback(() => {
    ends.current?.socket?.close(normalClose)
    ends.current?.sound.close()
    ends.current = null
  }, [])
  useEffect(() => leave, [leave])

  const send = (event: { type: string }) => {
    const socket = ends.current?.socket
    if (socket?.readyState !== WebSocket.OPEN) return
    socket.send(JSON.stringify(event))
    setState(before => withSentEvent(before, event.type, Date.now()))
  }
  const listen = async (sound: Sound) => {
    setMicrophoneProblem(null)
    try {
      await sound.listen((pcm, loudness) => {
        setLoudness(loudness)
        send({ type: 'input_audio_buffer.append', audio: base64Of(pcm) } as { type: string })
      })
    } catch {
      setMicrophoneProblem(
        'No microphone access. Allow it in the browser, on a page served over https or from localhost.',
      )
    }
  }
  const open = async (model: string, settings: object) => {
    leave()
    setState({ ...noTalk, phase: 'opening' })
    try {
      const sound = new Sound()
      sound.muted = muted
      const own: Ends = { sound, socket: null }
      ends.current = own
      const secret = await client.secret()
      // The tab was left in the meantime.
      if (ends.current !== own) return
      const socket = socketOf(model, secret)
      own.socket = socket
      socket.onopen = () => {
        setState(before => ({ ...before, phase: 'open' }))
        send({ type: 'session.update', session: settings } as { type: string })
        void listen(sound)
      }
      socket.onmessage = ({ data }) => receive(JSON.parse(String(data)) as ServerEvent, sound, setState)
      socket.onclose = ({ code, reason }) => {
        sound.close()
        setLoudness(0)
        setState(before => ({ ...before, phase: 'closed', ended: { code, reason } }))
      }
    } catch (error) {
      leave()
      const { code = 'error', message } = error as Error & { code?: string }
      setState({ ...noTalk, error: { code, message } })
    }
  }
  return {
    state,
    loudness,
    microphoneProblem,
    muted,
    open,
    mute: off => {
      setMuted(off)
      setLoudness(0)
      if (ends.current) ends.current.sound.muted = off
    },
    write: text => {
      const content = [{ type: 'input_text', text }]
      send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } } as { type: string })
      send({ type: 'response.create' })
    },
    close: leave,
  }
}

/** Browsers cannot set headers of a WebSocket, so the secret is sent as a subprotocol. */
function socketOf(model: string, secret: string): WebSocket {
  const address = `${location.origin.replace(/^http/, 'ws')}/v1/realtime?model=${encodeURIComponent(model)}`
  return new WebSocket(address, ['realtime', `openai-insecure-api-key.${secret}`])
}

function receive(event: ServerEvent, sound: Sound, setState: (change: (before: TalkState) => TalkState) => void): void {
  if (event.type === 'response.output_audio.delta' && event.delta) sound.play(pcmOf(event.delta))
  if (event.type === 'input_audio_buffer.speech_started') sound.hush()
  setState(before => withServerEvent(before, event, Date.now()))
}
