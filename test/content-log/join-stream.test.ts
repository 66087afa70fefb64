import { joinStream } from '../../shared/content-log/join-stream.ts'
import { chatChunk } from '../emulators/openai.ts'
import { test } from '../support/test.ts'

test('the parts of a call of a custom tool are joined', async t => {
  const parts = [
    { index: 0, id: 'call_1', type: 'custom', custom: { name: 'sql', input: '' } },
    { index: 0, custom: { input: 'SELECT' } },
    { index: 0, custom: { input: ' 1' } },
  ]
  const stream = parts.map(call => `data: ${JSON.stringify(chatChunk({ tool_calls: [call] }))}\n\n`).join('')
  const { choices } = (await joinStream('chat', stream)) as { choices: { message: object }[] }
  const custom = { name: 'sql', input: 'SELECT 1' }
  t.deepEqual(choices[0]!.message, { tool_calls: [{ id: 'call_1', type: 'custom', custom }] })
})
