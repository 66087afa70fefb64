import { Anchor, Button, Divider, Group, PasswordInput, Stack, Text, TextInput, Title } from '@mantine/core'
import { IconFingerprint } from '@tabler/icons-react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Link, useSearchParams } from 'wouter'
import { callAuth } from '../../api.ts'
import { Form } from '../../components/form.tsx'
import { Failure } from '../../components/states.tsx'
import { useTitle } from '../../components/title.ts'
import { usePublicSettings } from '../../session.tsx'
import { signInWithPasskey } from '../account/webauthn.ts'
import { InvitationNote } from './invitation-note.tsx'
import { SecondStep } from './second-step.tsx'

/** The page to open after signing in: only paths of the dashboard, to prevent open redirects. */
function nextPage(wanted: string | null): string {
  return wanted?.startsWith('/dashboard/') ? wanted : '/dashboard/'
}

/** The error code of a single sign-on. The URL can be forged, so only codes are shown, no other text. */
function reasonOf(code: string | null): string | null {
  if (code === null) return null
  return /^[a-z_]{1,40}$/i.test(code) ? `Sign-in failed: ${code.replaceAll('_', ' ')}.` : 'Sign-in failed.'
}

export default function SignIn() {
  useTitle('Sign in')
  const [search] = useSearchParams()
  const next = nextPage(search.get('next'))
  const queries = useQueryClient()
  const settings = usePublicSettings()
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const [isSecondStep, setSecondStep] = useState(false)
  const enter = () => {
    queries.clear()
    location.assign(next)
  }
  const signIn = useMutation({
    mutationFn: () => callAuth<{ twoFactorRedirect?: boolean }>('sign-in/email', { email, password }),
    onSuccess: ({ twoFactorRedirect }) => {
      if (twoFactorRedirect) setSecondStep(true)
      else enter()
    },
  })
  const passkey = useMutation({ mutationFn: signInWithPasskey, onSuccess: enter })
  const oidc = useMutation({
    mutationFn: () =>
      callAuth<{ url: string }>('sign-in/oauth2', {
        providerId: 'oidc',
        callbackURL: next,
        errorCallbackURL: '/dashboard/sign-in',
      }),
    onSuccess: ({ url }) => location.assign(url),
  })
  const refused = reasonOf(search.get('error'))
  if (isSecondStep) return <SecondStep onSignedIn={enter} onBack={() => setSecondStep(false)} />
  return (
    <Stack>
      <Title order={1}>Sign in</Title>
      <InvitationNote />
      {refused && <Failure error={new Error(refused)} />}
      <Form mutation={signIn} submit="Sign in" fullWidth>
        <TextInput
          label="Email"
          type="email"
          autoComplete="username"
          required
          value={email}
          onChange={event => setEmail(event.currentTarget.value)}
        />
        <PasswordInput
          label="Password"
          autoComplete="current-password"
          required
          value={password}
          onChange={event => setPassword(event.currentTarget.value)}
        />
      </Form>
      <Group justify="space-between">
        <Anchor component={Link} href="/forgot-password" size="sm">
          Forgot your password?
        </Anchor>
        <Text size="sm">
          New here?{' '}
          <Anchor component={Link} href={`/sign-up${location.search}`} size="sm" underline="always">
            Create an account
          </Anchor>
        </Text>
      </Group>
      <Divider label="or" />
      <Button
        variant="default"
        fullWidth
        leftSection={<IconFingerprint size={16} aria-hidden />}
        loading={passkey.isPending}
        onClick={() => passkey.mutate()}
      >
        Continue with a passkey
      </Button>
      {passkey.error && <Failure error={passkey.error} />}
      {settings.data?.oidc && (
        <>
          <Button variant="default" fullWidth loading={oidc.isPending} onClick={() => oidc.mutate()}>
            Continue with {settings.data.oidc}
          </Button>
          {oidc.error && <Failure error={oidc.error} />}
        </>
      )}
    </Stack>
  )
}
