import test from 'ava'
import OpenAi4 from 'openai-4'
import OpenAi6 from 'openai-6'
import OpenAi7 from 'openai-7'
import { baseUrl, testKey } from './support/environment.ts'

/** The majors in use. Their types differ in name only where these tests call them. */
const majors = {
  'openai 4': OpenAi4 as unknown as typeof OpenAi7,
  'openai 6': OpenAi6 as unknown as typeof OpenAi7,
  'openai 7': OpenAi7,
}

for (const [name, Client] of Object.entries(majors)) {
  test(`200 ${name}: chat`, async t => {
    const client = new Client({ apiKey: testKey, baseURL: baseUrl, maxRetries: 0 })
    const answer = await client.chat.completions.create({
      model: 'auto',
      messages: [{ role: 'user', content: 'Hello' }],
    })
    t.is(answer.choices[0]!.message.content, 'Hello')
  })
}
