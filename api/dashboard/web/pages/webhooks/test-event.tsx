import { Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { OpenModal } from '../../components/dialogs.tsx'
import { Form } from '../../components/form.tsx'
import { useSendTest } from './queries.ts'

/** Sends a test event to a URL. `onSent` gets the delivery's ID. */
export function TestEvent({ onSent, onClose }: { onSent: (delivery: string) => void; onClose: () => void }) {
  const [url, setUrl] = useState('')
  const test = useSendTest(url.trim(), ({ id }) => onSent(id))
  return (
    <OpenModal onClose={onClose} title="Send test event" centered>
      <Form mutation={test} submit="Send test event">
        <Text size="sm">Sends a signed webhook.test event to this URL, with the same retries as other events.</Text>
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
