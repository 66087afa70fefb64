import { Alert, Button, Code, Stack, Text, Textarea, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import type { VerifyAnswer } from '../../../wire/webhook-endpoints.ts'
import { Copy, Snippets } from '../../components/copy.tsx'
import { Section } from '../../components/facts.tsx'
import { Failure } from '../../components/states.tsx'
import { useVerify } from './endpoint-queries.ts'
import { verifySnippets } from './verify-snippets.ts'

/** Recomputes the signature of a message as it arrived, and shows how to verify one in code. */
export function Verify({ endpointId }: { endpointId: string }) {
  return (
    <Stack>
      <Section title="Check a message">
        <MessageForm endpointId={endpointId} />
      </Section>
      <Section title="Verify in your code">
        <Snippets snippets={verifySnippets} />
      </Section>
    </Stack>
  )
}

function MessageForm({ endpointId }: { endpointId: string }) {
  const [message, setMessage] = useState({ id: '', timestamp: '', signature: '', body: '' })
  const verify = useVerify(endpointId)
  const set = (field: keyof typeof message) => (event: { currentTarget: { value: string } }) => {
    const { value } = event.currentTarget
    setMessage(before => ({ ...before, [field]: value }))
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const { id, timestamp, signature, body } = message
    const given = signature.trim()
    verify.mutate({ id: id.trim(), timestamp: Number(timestamp), body, ...(given !== '' && { signature: given }) })
  }
  return (
    <form onSubmit={submit}>
      <Stack maw={640}>
        <Text size="sm" c="dimmed">
          Paste a message as your receiver got it. The body must be unchanged, including spaces and line breaks.
        </Text>
        <TextInput label="webhook-id" required value={message.id} onChange={set('id')} placeholder="evt_…" />
        <TextInput
          label="webhook-timestamp"
          required
          inputMode="numeric"
          pattern="\d{1,10}"
          value={message.timestamp}
          onChange={set('timestamp')}
        />
        <TextInput
          label="webhook-signature"
          description="Leave empty to see the signature only."
          value={message.signature}
          onChange={set('signature')}
          placeholder="v1,…"
        />
        <Textarea
          label="Body"
          autosize
          minRows={4}
          maxRows={14}
          value={message.body}
          onChange={set('body')}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        />
        {verify.error && <Failure error={verify.error} />}
        <Button type="submit" w="fit-content" loading={verify.isPending}>
          Compute signature
        </Button>
        {verify.data && <Result result={verify.data} isGiven={verify.variables?.signature !== undefined} />}
      </Stack>
    </form>
  )
}

const sentences = {
  current: 'The signature is valid.',
  previous: 'The signature is valid, by the previous secret, which stops signing 24 hours after the roll.',
  none: 'The signature does not match. The body was changed, for example by parsing it first, or another secret was used.',
}

function Result({ result: { signatures, match, is_old }, isGiven }: { result: VerifyAnswer; isGiven: boolean }) {
  return (
    <Stack gap="xs" aria-live="polite">
      {isGiven && (
        <Alert color={match === null ? 'red' : 'green'} variant="light" title={sentences[match ?? 'none']}>
          {match !== null &&
            is_old &&
            'The timestamp is more than five minutes from now: verifiers reject such a message.'}
        </Alert>
      )}
      {signatures.map((signature, index) => (
        <div key={signature}>
          <Text size="xs" c="dimmed">
            {index === 0 ? 'Signature' : 'Signature by the previous secret'}
          </Text>
          <Code style={{ overflowWrap: 'anywhere' }}>{signature}</Code>
          <Copy value={signature} label="signature" />
        </div>
      ))}
    </Stack>
  )
}
