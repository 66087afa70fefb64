import test from 'ava'
import type OpenAi from 'openai-7'
import { liveKey, requestsTo, testKey } from './support/environment.ts'
import { clientOf, majorNames } from './support/openai.ts'
import { imageUri, marker, person, targets, weather } from './support/samples.ts'

/** OpenAI's client on the Responses API, on a native target and on translated ones. */
type Input = OpenAi.Responses.ResponseInput
type Item = OpenAi.Responses.ResponseOutputItem
const isCall = (item: Item): item is Extract<Item, { type: 'function_call' }> => item.type === 'function_call'

/** The text of a response: the oldest client adds `output_text` to complete responses only. */
function textOf({ output }: { output: Item[] }): string {
  const parts = output.flatMap(item => (item.type === 'message' ? item.content : []))
  return parts.map(part => (part.type === 'output_text' ? part.text : '')).join('')
}

for (const major of majorNames) {
  for (const { model, provider } of targets) {
    const client = clientOf(major, liveKey)
    const title = (what: string) => `200 ${major}, ${provider}: ${what}`

    test.serial(title('a response with usage'), async t => {
      const input = `Hello ${marker()}`
      const response = await client.responses.create({ model, input })
      t.like(response, { status: 'completed', output_text: `Echo: ${input}`, error: null })
      const { input_tokens, output_tokens, total_tokens } = response.usage!
      t.true(input_tokens > 0 && output_tokens > 0)
      t.is(total_tokens, input_tokens + output_tokens)
      t.is((await requestsTo(provider, input)).length, 1)
    })

    test.serial(title('a response streamed, by its events and by the helper'), async t => {
      const input = `Hello ${marker()}`
      let text = ''
      const types: string[] = []
      for await (const event of await client.responses.create({ model, input, stream: true })) {
        types.push(event.type)
        if (event.type === 'response.output_text.delta') text += event.delta
      }
      t.is(text, `Echo: ${input}`)
      t.is(types[0], 'response.created')
      t.is(types.at(-1), 'response.completed')
      const final = await client.responses.stream({ model, input }).finalResponse()
      t.is(textOf(final), `Echo: ${input}`)
      t.true(final.usage!.output_tokens > 0)
    })

    for (const stream of [false, true])
      test.serial(title(`two tools are called and an answer comes${stream ? ', streamed' : ''}`), async t => {
        const result = marker()
        const tools = [{ type: 'function' as const, strict: true, ...weather }]
        const input: Input = [{ role: 'user', content: 'What is the weather in Oslo and Rome?' }]
        const ask = async () => {
          const body = { model, input, tools }
          const response = stream
            ? await client.responses.stream(body).finalResponse()
            : await client.responses.create(body)
          const output: Item[] = response.output
          input.push(...(output as Input))
          return { calls: output.filter(isCall), text: textOf({ output }) }
        }
        const { calls } = await ask()
        const cities = calls.map(call => JSON.parse(call.arguments).city as string)
        t.deepEqual(cities.toSorted(), ['Oslo', 'Rome'])
        for (const [index, { call_id }] of calls.entries()) {
          const output = `sunny in ${cities[index]} ${result}`
          input.push({ type: 'function_call_output', call_id, output })
        }
        t.regex((await ask()).text, /\w/)
        const [request] = await requestsTo(provider, result)
        t.true(request!.raw.includes(`sunny in Oslo ${result}`) && request!.raw.includes(`sunny in Rome ${result}`))
      })

    test.serial(title('structured output is parsed by its schema'), async t => {
      const format = { type: 'json_schema' as const, name: 'person', strict: true, schema: person }
      const response = await client.responses.parse({ model, input: 'Who is it?', text: { format } })
      t.is(typeof (response.output_parsed as unknown as { age: number }).age, 'number')
    })

    test.serial(title('an image in a message'), async t => {
      const text = `What is this? ${marker()}`
      const content = [
        { type: 'input_text' as const, text },
        { type: 'input_image' as const, image_url: imageUri, detail: 'auto' as const },
      ]
      const { output_text } = await client.responses.create({ model, input: [{ role: 'user', content }] })
      t.true(output_text.includes(text))
      t.true((await requestsTo(provider, text))[0]!.raw.includes(imageUri.split(',')[1]!))
    })
  }

  test.serial(`200 ${major}: the sandbox responds, streams and calls tools`, async t => {
    const client = clientOf(major, testKey)
    t.is((await client.responses.create({ model: 'auto', input: 'Hello' })).output_text, 'Hello')
    t.is(textOf(await client.responses.stream({ model: 'auto', input: 'Hello' }).finalResponse()), 'Hello')
    const tools = [{ type: 'function' as const, strict: true, ...weather }]
    const tool_choice = { type: 'function' as const, name: 'weather' }
    const { output } = await client.responses.create({ model: 'auto', input: 'Hello', tools, tool_choice })
    t.is(typeof JSON.parse(output.find(isCall)!.arguments).city, 'string')
  })
}
