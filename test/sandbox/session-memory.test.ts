import { Conversation } from '../../shared/providers/sandbox/realtime/conversation.ts'
import { InputBuffer } from '../../shared/providers/sandbox/realtime/input.ts'
import type { Item } from '../../shared/providers/sandbox/realtime/items.ts'
import { SessionMemory } from '../../shared/providers/sandbox/realtime/session-memory.ts'
import { test } from '../support/test.ts'

const mib = 1024 * 1024
const item = (index: number): Item => ({
  id: `item_${index}`,
  status: 'completed',
  type: 'message',
  role: 'user',
  content: [{ type: 'input_text', text: 'x'.repeat(900_000) }],
})

/** A session that keeps as much as it may. */
function fill() {
  const memory = new SessionMemory()
  const conversation = new Conversation(memory)
  const input = new InputBuffer(memory, 'audio/pcm', null)
  for (let i = 0; i < 20; i++) conversation.add(item(i))
  let audioBytes = 0
  try {
    for (; audioBytes < 20 * mib; audioBytes += 100_000) Array.from(input.append(Buffer.alloc(100_000)))
  } catch {}
  return { memory, bytes: conversation.items.length * 900_000 + audioBytes, audioBytes }
}

test('full: all sessions of a process share a bound of memory, and each has a little of its own', t => {
  const sessions = Array.from({ length: 20 }, fill)
  t.true(sessions[0]!.bytes > 25 * mib)
  t.true(sessions.every(({ bytes, audioBytes }) => bytes > mib && audioBytes > 0))
  t.true(sessions.reduce((sum, { bytes }) => sum + bytes, 0) < (64 + 20 * 3) * mib)
  for (const { memory } of sessions) memory.release()
  const later = fill()
  t.true(later.bytes > 25 * mib)
  later.memory.release()
})
