import { Anchor, PasswordInput, Stack, Text, Title } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useSearchParams } from 'wouter'
import { callAuth } from '../../api.ts'
import { Form } from '../../components/form.tsx'
import { useTitle } from '../../components/title.ts'

export default function ResetPassword() {
  useTitle('New password')
  const [search] = useSearchParams()
  const [password, setPassword] = useState('')
  const reset = useMutation({
    mutationFn: () => callAuth('reset-password', { token: search.get('token') ?? '', newPassword: password }),
  })
  return (
    <Stack>
      <Title order={1}>Choose a new password</Title>
      {reset.isSuccess ? (
        <>
          <Text role="status">Your password has been changed. All other sessions have been signed out.</Text>
          <Anchor component={Link} href="/sign-in">
            Sign in
          </Anchor>
        </>
      ) : (
        <Form mutation={reset} submit="Change password" fullWidth>
          <PasswordInput
            label="New password"
            description="At least 10 characters."
            autoComplete="new-password"
            required
            minLength={10}
            maxLength={128}
            value={password}
            onChange={event => setPassword(event.currentTarget.value)}
          />
        </Form>
      )}
    </Stack>
  )
}
