import { type Dispatch, type SetStateAction, useEffect, useRef } from 'react'
import { usePersistedField } from '../persisted-field.ts'
import { usePlayground } from '../playground-context.ts'
import { answersOf } from './answers.ts'
import type { Format } from './formats/format.ts'
import { type AssistantTurn, noAnswer, type Turn } from './turns.ts'

type NewTurn = Turn extends infer T ? (T extends Turn ? Omit<T, 'id'> : never) : never
let lastId = 0

type Chat = {
  turns: Turn[]
  isRunning: boolean
  /** Adds to the conversation and requests a response. */
  send: (added: NewTurn[]) => void
  /** Regenerates the last response. */
  regenerate: () => void
  stop: () => void
  clear: () => void
}

/** A conversation in one of the formats. `bodyOf` builds the request from the turns so far. */
export function useChat(format: Format, bodyOf: (turns: Turn[]) => object): Chat {
  const { client } = usePlayground()
  const [turns, setTurns] = usePersistedField<Turn[]>('chat.turns', [])
  const running = useRef<AbortController | null>(null)
  useEffect(() => {
    // A response that was in progress when the tab was left has been aborted.
    setTurns(kept => kept.map(turn => (isStreaming(turn) ? { ...turn, state: 'stopped' } : turn)))
    return () => running.current?.abort()
  }, [setTurns])

  const answer = async (asked: Turn[]) => {
    const aborted = new AbortController()
    running.current = aborted
    const turn: AssistantTurn = {
      id: ++lastId,
      role: 'assistant',
      answer: noAnswer,
      state: 'streaming',
      facts: null,
      error: null,
    }
    setTurns([...asked, turn])
    const update = updater(setTurns, turn.id)
    try {
      const init = { body: bodyOf(asked), signal: aborted.signal }
      for await (const change of answersOf(client, format, init)) update(change)
      update({ state: 'done' })
    } catch (error) {
      update(aborted.signal.aborted ? { state: 'stopped' } : { state: 'failed', error: error as Error })
    }
    if (running.current === aborted) running.current = null
  }

  return {
    turns,
    isRunning: turns.some(isStreaming),
    send: added => void answer([...turns, ...added.map(turn => ({ ...turn, id: ++lastId }))]),
    regenerate: () =>
      void answer(
        turns.slice(
          0,
          turns.findLastIndex(({ role }) => role === 'assistant'),
        ),
      ),
    stop: () => running.current?.abort(),
    clear: () => {
      running.current?.abort()
      setTurns([])
    },
  }
}

function isStreaming(turn: Turn): turn is AssistantTurn {
  return turn.role === 'assistant' && turn.state === 'streaming'
}

/** Changes a response if it is still part of the conversation. */
function updater(setTurns: Dispatch<SetStateAction<Turn[]>>, id: number) {
  return (change: Partial<AssistantTurn>) =>
    setTurns(turns => turns.map(turn => (turn.id === id && turn.role === 'assistant' ? { ...turn, ...change } : turn)))
}
