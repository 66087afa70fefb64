import { Anchor, Stack, Text, TextInput, Title } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { callAuth } from '../../api.ts'
import { CodeInput, codeOf } from '../../components/code-input.tsx'
import { Form } from '../../components/form.tsx'

/** Asks for the code that follows the password, or for one of the backup codes. */
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
      <Title order={1}>Second step</Title>
      <Text size="sm">Your password is right. Show that you have your phone, too.</Text>
      <Form mutation={verify} submit="Sign in" fullWidth>
        {isBackup ? (
          <TextInput
            label="Backup code"
            description="Each works once."
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
        {isBackup ? 'Use a code of the app' : 'Use a backup code'}
      </Anchor>
      <Anchor component="button" type="button" size="sm" ta="left" onClick={onBack}>
        Use another account
      </Anchor>
    </Stack>
  )
}
