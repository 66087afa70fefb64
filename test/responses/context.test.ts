import { responsesRequest } from '../../shared/kinds/responses.ts'
import { withContext } from '../../shared/responses/context.ts'
import { test } from '../support/test.ts'

const earlier = [
  { type: 'message' as const, role: 'user' as const, content: 'Grüße' },
  { type: 'reasoning' as const, id: 'rs_1', encrypted_content: 'hg1.abc' },
]

function turn(text: string) {
  return { body: responsesRequest.parse(JSON.parse(text)), raw: Buffer.from(text) }
}

test('earlier items precede the new ones, and all else keeps its characters', t => {
  const text = `{ "model":"m",  "temperature": 1.0, "previous_response_id":"resp_1", "input": [ {"role":"user","content":"é \\u00e9","n":1.50} ],"x":{"b":2.0} }`
  const { body, raw } = withContext(turn(text), earlier)
  t.is(
    raw.toString(),
    `{ "model":"m",  "temperature": 1.0, "input": [${JSON.stringify(earlier).slice(1, -1)}, {"role":"user","content":"é \\u00e9","n":1.50} ],"x":{"b":2.0} }`,
  )
  t.deepEqual(JSON.parse(raw.toString()), body)
  t.false('previous_response_id' in body)
})

test('a prompt becomes a message of the user', t => {
  const { body, raw } = withContext(turn('{"input":"Hi","conversation":{"id":"conv_1"},"model":"m"}'), earlier)
  t.deepEqual(body, { model: 'm', input: [...earlier, { type: 'message', role: 'user', content: 'Hi' }] })
  t.deepEqual(JSON.parse(raw.toString()), body)
})

test('a conversation without items leaves the input as it was written', t => {
  const { body, raw } = withContext(
    turn('{"model":"m","conversation":"conv_1","input":[{"role":"user","content":"Hi"}]}'),
    [],
  )
  t.is(raw.toString(), '{"model":"m","input":[{"role":"user","content":"Hi"}]}')
  t.deepEqual(JSON.parse(raw.toString()), body)
})

test('names written with escapes are found as well', t => {
  const { body, raw } = withContext(turn('{"model":"m","\\u0069nput":[{"role":"user","content":"Hi"}]}'), earlier)
  t.deepEqual(JSON.parse(raw.toString()), body)
  t.is((body.input as unknown[]).length, 3)
})

test('a request to compact is not continued, as it may only be the last item', t => {
  const compacted = [earlier[0]!, { type: 'compaction_trigger' }, { type: 'compaction', encrypted_content: 'x' }]
  const { body } = withContext(turn('{"model":"m","input":"Go on"}'), compacted)
  t.deepEqual(
    (body.input as { type?: string }[]).map(({ type }) => type),
    ['message', 'compaction', 'message'],
  )
})
