import { Anchor, Stack, Text, TextInput, Title } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'wouter'
import { callAuth } from '../../api.ts'
import { Form } from '../../components/form.tsx'
import { useTitle } from '../../components/title.ts'

export default function ForgotPassword() {
  useTitle('Reset your password')
  const [email, setEmail] = useState('')
  const ask = useMutation({ mutationFn: () => callAuth('request-password-reset', { email }) })
  return (
    <Stack>
      <Title order={1}>Reset your password</Title>
      {ask.isSuccess ? (
        <Text role="status">
          If an account exists for {email}, we have sent a link to reset its password. The link expires in one hour.
        </Text>
      ) : (
        <Form mutation={ask} submit="Send reset link" fullWidth>
          <TextInput
            label="Email"
            type="email"
            autoComplete="username"
            required
            value={email}
            onChange={event => setEmail(event.currentTarget.value)}
          />
        </Form>
      )}
      <Anchor component={Link} href="/sign-in" size="sm">
        Back to sign-in
      </Anchor>
    </Stack>
  )
}
