import { Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { OpenModal } from '../../components/dialogs.tsx'
import { Form } from '../../components/form.tsx'
import { useSendTest } from './queries.ts'

/** Asks for a URL and posts a test event there. `onSent` gets the delivery's id. */
export function TestEvent({ onSent, onClose }: { onSent: (delivery: string) => void; onClose: () => void }) {
  const [url, setUrl] = useState('')
  const test = useSendTest(url.trim(), ({ id }) => onSent(id))
  return (
    <OpenModal onClose={onClose} title="Send a test event" centered>
      <Form mutation={test} submit="Send test event">
        <Text size="sm">An event webhook.test is posted to this URL, signed and tried again like every other.</Text>
        <TextInput
          label="URL"
          placeholder="https://example.com/webhooks"
          type="url"
          required
          data-autofocus
          value={url}
          onChange={event => setUrl(event.currentTarget.value)}
        />
      </Form>
    </OpenModal>
  )
}
