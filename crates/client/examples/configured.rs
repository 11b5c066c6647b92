//! A client from a file: `cargo run -p outflow --example configured -- outflow.toml API /path`.

use std::time::Duration;

use outflow::{Config, Outflow};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(file), Some(api), Some(path)) = (words.next(), words.next(), words.next()) else {
        println!("say which file, which of its APIs, and a path: outflow.toml github /zen");
        return Ok(());
    };
    let config = Config::from_file(&file)?;
    print!("{}", config.warnings);
    let client = Outflow::init(config)?;

    match client.get(&api, &path).send().await {
        Ok(answer) => println!("{} after waiting {:?}", answer.status(), answer.waited()),
        Err(error) => println!("{error}"),
    }
    client.close(Duration::from_secs(5)).await;
    Ok(())
}
