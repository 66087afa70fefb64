import { Page } from '../components/page.tsx'

export default function Requests() {
  return <Page title="Requests">{null}</Page>
}
