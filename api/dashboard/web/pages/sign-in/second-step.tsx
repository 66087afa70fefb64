import { Anchor, Stack, Text, TextInput, Title } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { callAuth } from '../../api.ts'
import { CodeInput, codeOf } from '../../components/code-input.tsx'
import { Form } from '../../components/form.tsx'

/** Asks for a code from the authenticator app, or a backup code. */
export function SecondStep({ onSignedIn, onBack }: { onSignedIn: () => void; onBack: () => void }) {
  const [isBackup, setBackup] = useState(false)
  const [code, setCode] = useState('')
  const verify = useMutation({
    mutationFn: () =>
      isBackup
        ? callAuth('two-factor/verify-backup-code', { code: code.trim() })
        : callAuth('two-factor/verify-totp', { code: codeOf(code) }),
    onSuccess: onSignedIn,
  })
  const change = () => {
    setBackup(!isBackup)
    setCode('')
    verify.reset()
  }
  return (
    <Stack>
      <Title order={1}>Two-factor sign-in</Title>
      <Text size="sm">Enter the code from your authenticator app to finish signing in.</Text>
      <Form mutation={verify} submit="Sign in" fullWidth>
        {isBackup ? (
          <TextInput
            label="Backup code"
            description="Each code works once."
            required
            autoComplete="off"
            maxLength={40}
            value={code}
            onChange={event => setCode(event.currentTarget.value)}
          />
        ) : (
          <CodeInput value={code} onChange={setCode} focused />
        )}
      </Form>
      <Anchor component="button" type="button" size="sm" ta="left" onClick={change}>
        {isBackup ? 'Use a code from the app' : 'Use a backup code'}
      </Anchor>
      <Anchor component="button" type="button" size="sm" ta="left" onClick={onBack}>
        Use another account
      </Anchor>
    </Stack>
  )
}
