import { Drawer, Stack, Text } from '@mantine/core'
import { CodeBox, Snippets } from '../../components/copy.tsx'

const line = JSON.stringify({
  custom_id: 'question-1',
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'auto', messages: [{ role: 'user', content: 'Say hello in one word.' }] },
})

function snippets() {
  const baseUrl = `${location.origin}/v1`
  return [
    {
      language: 'curl',
      code: `curl ${baseUrl}/files \\
  -H "Authorization: Bearer $HEADGATE_API_KEY" \\
  -F purpose=batch -F file=@requests.jsonl

# Use the ID of the uploaded file:
curl ${baseUrl}/batches \\
  -H "Authorization: Bearer $HEADGATE_API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '{"input_file_id":"file-…","endpoint":"/v1/chat/completions","completion_window":"24h"}'`,
    },
    {
      language: 'Node.js',
      code: `import { createReadStream } from 'node:fs'
import OpenAI from 'openai'

const client = new OpenAI({
  baseURL: '${baseUrl}',
  apiKey: process.env.HEADGATE_API_KEY,
})
const file = await client.files.create({
  file: createReadStream('requests.jsonl'),
  purpose: 'batch',
})
const batch = await client.batches.create({
  input_file_id: file.id,
  endpoint: '/v1/chat/completions',
  completion_window: '24h',
})
console.log(batch.id)`,
    },
    {
      language: 'Python',
      code: `import os
from openai import OpenAI

client = OpenAI(
    base_url="${baseUrl}",
    api_key=os.environ["HEADGATE_API_KEY"],
)
file = client.files.create(file=open("requests.jsonl", "rb"), purpose="batch")
batch = client.batches.create(
    input_file_id=file.id,
    endpoint="/v1/chat/completions",
    completion_window="24h",
)
print(batch.id)`,
    },
  ]
}

/** Instructions for submitting a batch. */
export function HowToSubmit({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Drawer opened={opened} onClose={onClose} title="How to submit a batch">
      <Stack>
        <Text size="sm">
          Write one request per line into <code>requests.jsonl</code>, each with a unique custom_id:
        </Text>
        <CodeBox code={line} label="Line of the file" />
        <Text size="sm">Upload the file and create a batch, with your API key in the environment:</Text>
        <Snippets snippets={snippets()} />
        <Text size="sm" c="dimmed">
          Small batches can be sent inline as <code>requests</code> instead of <code>input_file_id</code>. A file can
          have up to 50,000 lines and 200 MiB.
        </Text>
      </Stack>
    </Drawer>
  )
}
