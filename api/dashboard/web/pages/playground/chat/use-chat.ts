import { type Dispatch, type SetStateAction, useEffect, useRef } from 'react'
import { useBench } from '../bench.ts'
import { useKept } from '../kept.ts'
import { type Facts, factsOf } from '../response-facts.ts'
import type { Format } from './formats/format.ts'
import { piecesOf } from './stream.ts'
import { type AssistantTurn, extended, noAnswer, type Piece, type Turn } from './turns.ts'

type NewTurn = Turn extends infer T ? (T extends Turn ? Omit<T, 'id'> : never) : never
let lastId = 0

export type Chat = {
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
  const { client } = useBench()
  const [turns, setTurns] = useKept<Turn[]>('chat.turns', [])
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
    const startedMs = performance.now()
    const update = updater(setTurns, turn.id)
    try {
      const init = { body: bodyOf(asked), signal: aborted.signal }
      const response = await client.request(format.path, init)
      let facts = factsOf(response, startedMs)
      for await (const piece of piecesOf(response, format)) {
        facts = { ...withPiece(facts, piece), durationMs: performance.now() - startedMs }
        update(last => ({ answer: extended(last.answer, piece), facts }))
      }
      update(() => ({ state: 'done' }))
    } catch (error) {
      update(() => (aborted.signal.aborted ? { state: 'stopped' } : { state: 'failed', error: error as Error }))
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
  return (change: (turn: AssistantTurn) => Partial<AssistantTurn>) =>
    setTurns(turns =>
      turns.map(turn => (turn.id === id && turn.role === 'assistant' ? { ...turn, ...change(turn) } : turn)),
    )
}

function withPiece(facts: Facts, { id, model, provider, costUsd, tokens }: Piece): Facts {
  return {
    ...facts,
    generationId: facts.generationId ?? id ?? null,
    model: facts.model ?? model ?? null,
    provider: facts.provider ?? provider ?? null,
    costUsd: costUsd ?? facts.costUsd,
    ...(tokens && { tokens: { prompt: 0, completion: 0, ...facts.tokens, ...tokens } }),
  }
}
